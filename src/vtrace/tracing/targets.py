"""Targets in words: which response tokens a user wants explained."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import InputError
from ..system.user_pattern import find_pattern
from ..types import Span, Target, Trace
from .spans import covering

HELP = (
    "response, answer, reasoning, 'sentence 2', a quoted phrase such as '\"red star\"' "
    "(append #2 for its second occurrence), a regular expression such as '/row \\d/', or 'tokens 5-12'"
)
TargetSpec = str | Target | slice | int | Sequence[int]


def find_target(trace: Trace, spec: TargetSpec) -> Target:
    """Resolve a target. Integers and slices count response tokens from 0."""
    if isinstance(spec, Target):
        return _of_tokens(trace, [p - trace.prompt_length for p in spec.positions], spec.name)
    size = len(trace) - trace.prompt_length
    if isinstance(spec, slice):
        return _of_tokens(trace, range(*spec.indices(size)), f"tokens {spec.start or 0}-{(spec.stop or size) - 1}")
    if isinstance(spec, int):
        spec = [spec]
    if not isinstance(spec, str):
        return _of_tokens(trace, spec, "tokens " + ",".join(map(str, spec)))

    text = spec.strip()
    if text == "response":
        return Target("response", tuple(range(trace.prompt_length, len(trace))))
    if text == "reasoning":
        return _of_spans(trace, [trace.reasoning], "reasoning", "the response has no reasoning before its answer")
    if text == "answer":
        missing = "the response has no 'Final answer:' line; use target 'response' or quote a phrase of it"
        return _of_spans(trace, [trace.answer] if trace.answer else [], "answer", missing)
    if match := re.fullmatch(r"sentence[ :]?(-?\d{1,9})", text):
        return _sentence(trace, int(match[1]))
    if match := re.fullmatch(r"tokens?[ :](\d{1,9})(?:-(\d{1,9}))?", text):
        return _of_tokens(trace, range(int(match[1]), int(match[2] or match[1]) + 1), text)
    if match := re.fullmatch(r"""(["'“‘])(.+?)["'”’](?:#(\d{1,9}))?""", text, re.DOTALL):
        return _phrase(trace, match[2], int(match[3] or 1))
    if len(text) > 2 and text[0] == text[-1] == "/":
        return _pattern(trace, text[1:-1])
    raise InputError(f"unknown target {spec!r}; use one of: {HELP}")


def _sentence(trace: Trace, number: int) -> Target:
    count = len(trace.sentences)
    index = number - 1 if number > 0 else count + number
    if not 0 <= index < count:
        raise InputError(f"there is no sentence {number}: the response has {count}; count from 1 (or -1 for the last)")
    return _of_spans(trace, [trace.sentences[index]], f"sentence {index + 1}", "the sentence is empty")


def _phrase(trace: Trace, phrase: str, number: int) -> Target:
    start = trace.response_span[0]
    found = [match.span() for match in re.finditer(re.escape(phrase), trace.response)]
    if not found:
        raise InputError(f"the response does not contain {phrase!r}; it reads: {_quote(trace)}")
    if not 1 <= number <= len(found):
        raise InputError(f"the response contains {phrase!r} {len(found)} times; there is no occurrence {number}")
    low, high = found[number - 1]
    name = f'"{phrase}"' + (f" #{number}" if len(found) > 1 else "")
    return _of_spans(trace, [Span(start + low, start + high)], name, f"no token covers {phrase!r}")


def _pattern(trace: Trace, pattern: str) -> Target:
    start = trace.response_span[0]
    spans = [Span(start + low, start + high) for low, high in find_pattern(pattern, trace.response)]
    return _of_spans(
        trace, spans, f"/{pattern}/", f"nothing in the response matches {pattern!r}; it reads: {_quote(trace)}"
    )


def _of_spans(trace: Trace, spans: Sequence[Span], name: str, missing: str) -> Target:
    positions = {p for span in spans for p in covering(trace.text, trace.offsets, span, trace.prompt_length)}
    if not positions:
        raise InputError(missing)
    return Target(name, tuple(sorted(positions)))


def _of_tokens(trace: Trace, tokens: Sequence[int], name: str) -> Target:
    size = len(trace) - trace.prompt_length
    if not len(tokens):
        raise InputError("the token range is empty")
    ends = (tokens[0], tokens[-1]) if isinstance(tokens, range) else tokens  # a range can be very long
    if min(ends) < 0 or max(ends) >= size:
        raise InputError(f"{name}: the response has tokens 0 to {size - 1}")
    return Target(name, tuple(sorted(trace.prompt_length + int(t) for t in set(tokens))))


def _quote(trace: Trace) -> str:
    text = " ".join(trace.response.split())
    return repr(text if len(text) <= 160 else text[:157] + "...")
