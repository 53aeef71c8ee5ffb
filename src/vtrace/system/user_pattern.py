"""Regular expressions that users write: with a time limit, because some take exponential time."""

from __future__ import annotations

import math
import re
import warnings

import regex

from ..errors import InputError, first_line
from ..types import Span

MAX_PATTERN = 1000  # characters
MAX_REPEATS = 100_000  # by numbers in braces, nested: the compiler writes some of them out
SECONDS = 2.0
_BRACES = re.compile(r"\{([^{}]*)\}")


def find_pattern(pattern: str, text: str) -> list[Span]:
    """Where the expression matches at least one character of the text."""
    if len(pattern) > MAX_PATTERN:
        raise InputError(f"the regular expression has {len(pattern)} characters; the limit is {MAX_PATTERN}")
    counts = [int(digits) for part in _BRACES.findall(pattern) for digits in re.findall("[0-9]+", part)]
    if math.prod(map(float, filter(None, counts))) > MAX_REPEATS:
        raise InputError(f"the regular expression {pattern[:80]!r} repeats too much; use smaller numbers in braces")
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)  # the language is Python's own: extensions such as recursion can use up all memory
        found = regex.compile(pattern).finditer(text, timeout=SECONDS)
        return [Span(*match.span()) for match in found if match.end() > match.start()]
    except (re.error, regex.error) as error:
        raise InputError(f"the regular expression {pattern!r} is not valid: {error}") from error
    except TimeoutError as error:
        raise InputError(
            f"the regular expression {pattern!r} takes too long; avoid repetitions inside repetitions"
        ) from error
    except (ValueError, RecursionError, OverflowError) as error:  # of the compilers
        raise InputError(f"the regular expression {pattern[:80]!r} cannot be used: {first_line(error)}") from error
