"""Targets in words: which response tokens a user wants explained."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple

from ..errors import InputError
from ..system.user_pattern import find_pattern
from ..types import Span, Target, Trace
from .spans import covering, find_answer

HELP = (
    "response, answer, reasoning, 'sentence 2', a phrase such as '\"red star\"' "
    "(append #2 for its second occurrence), a regular expression such as '/row \\d/', or 'tokens 5-12'"
)
_NO_ANSWER = "the response has no 'Final answer:' line; use target 'response' or quote a phrase of it"
TargetSpec = str | Target | slice | int | Sequence[int]
_Named = Literal["response", "answer", "reasoning"]
_NAMED: tuple[_Named, ...] = ("response", "answer", "reasoning")


class _Sentence(NamedTuple):
    number: int  # from 1, or from -1 backwards


class _Tokens(NamedTuple):
    first: int
    last: int


class _Phrase(NamedTuple):
    text: str
    number: int  # of the occurrence, from 1


class _Pattern(NamedTuple):
    text: str


def find_target(trace: Trace, spec: TargetSpec) -> Target:
    """Resolve a target. Integers and slices count response tokens from 0. A text of no other form is a phrase."""
    if isinstance(spec, Target):
        return _of_tokens(trace, [p - trace.prompt_length for p in spec.positions], spec.name)
    size = len(trace) - trace.prompt_length
    if isinstance(spec, slice):
        return _of_tokens(trace, range(*spec.indices(size)), f"tokens {spec.start or 0}-{(spec.stop or size) - 1}")
    if isinstance(spec, int):
        spec = [spec]
    if not isinstance(spec, str):
        return _of_tokens(trace, spec, "tokens " + ",".join(map(str, spec)))
    match _parse(spec):
        case "response":
            return Target("response", tuple(range(trace.prompt_length, len(trace))))
        case "reasoning":
            return _of_spans(trace, [trace.reasoning], "reasoning", "the response has no reasoning before its answer")
        case "answer":
            return _of_spans(trace, [trace.answer] if trace.answer else [], "answer", _NO_ANSWER)
        case _Sentence(number):
            return _sentence(trace, number)
        case _Tokens(first, last):
            return _of_tokens(trace, range(first, last + 1), spec.strip())
        case _Phrase(text, number):
            return _phrase(trace, text, number)
        case _Pattern(text):
            return _pattern(trace, text)


def check_target(spec: str, response: str | None = None) -> None:
    """Refuse a target that no response has, or that this one does not have. Needs no model."""
    parsed = _parse(spec)
    if response is None:
        return
    text = unicodedata.normalize("NFC", response).strip()
    if parsed == "answer" and find_answer(text, Span(0, len(text)))[1] is None:
        raise InputError(_NO_ANSWER)
    if isinstance(parsed, _Phrase):
        _occurrence(text, parsed.text, parsed.number)
    if isinstance(parsed, _Pattern):
        _matches(text, parsed.text)


def _parse(spec: str) -> _Named | _Sentence | _Tokens | _Phrase | _Pattern:
    """What a target in words means. An error if no response can have it, or if it is a misspelt name."""
    text = spec.strip()
    if named := [name for name in _NAMED if name == text]:
        return named[0]
    if match := re.fullmatch(r"sentence[ :]?(-?\d{1,9})", text):
        if not int(match[1]):
            raise InputError("there is no sentence 0; count from 1 (or -1 for the last)")
        return _Sentence(int(match[1]))
    if match := re.fullmatch(r"tokens?[ :](\d{1,9})(?:-(\d{1,9}))?", text):
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"the token range {text!r} is empty; write the smaller number first")
        return _Tokens(first, last)
    if match := re.fullmatch(r"""(["'“‘])(.+?)["'”’](?:#(\d{1,9}))?""", text, re.DOTALL):
        return _Phrase(match[2], int(match[3] or 1))
    if len(text) > 2 and text[0] == text[-1] == "/":
        find_pattern(text[1:-1], "")
        return _Pattern(text[1:-1])
    if not text or re.match(r"(sentence|token)s?\b", text, re.IGNORECASE):
        raise InputError(f"unknown target {spec!r}; use one of: {HELP}")
    if near := get_close_matches(text.lower(), _NAMED, 1, cutoff=0.75):
        quoted = f"""'"{text}"'"""
        raise InputError(f"unknown target {spec!r}; did you mean {near[0]}? If it is a phrase, quote it: {quoted}")
    return _Phrase(text, 1)


def _sentence(trace: Trace, number: int) -> Target:
    count = len(trace.sentences)
    index = number - 1 if number > 0 else count + number
    if not 0 <= index < count:
        raise InputError(f"there is no sentence {number}: the response has {count}; count from 1 (or -1 for the last)")
    return _of_spans(trace, [trace.sentences[index]], f"sentence {index + 1}", "the sentence is empty")


def _phrase(trace: Trace, phrase: str, number: int) -> Target:
    start = trace.response_span[0]
    found = _occurrence(trace.response, phrase, number)
    name = f'"{phrase}"' + (f" #{number}" if trace.response.count(phrase) > 1 else "")
    return _of_spans(trace, [Span(start + found.start, start + found.stop)], name, f"no token covers {phrase!r}")


def _occurrence(response: str, phrase: str, number: int) -> Span:
    """Where a phrase occurs for the given time."""
    found = [Span(*match.span()) for match in re.finditer(re.escape(phrase), response)]
    if not found:
        raise InputError(f"the response does not contain {phrase!r}; it reads: {_quote(response)}")
    if not 1 <= number <= len(found):
        raise InputError(f"the response contains {phrase!r} {len(found)} times; there is no occurrence {number}")
    return found[number - 1]


def _pattern(trace: Trace, pattern: str) -> Target:
    start = trace.response_span[0]
    spans = [Span(start + low, start + high) for low, high in _matches(trace.response, pattern)]
    return _of_spans(trace, spans, f"/{pattern}/", f"no token covers what {pattern!r} matches")


def _matches(response: str, pattern: str) -> list[Span]:
    """Where a regular expression matches."""
    if found := find_pattern(pattern, response):
        return found
    raise InputError(f"nothing in the response matches {pattern!r}; it reads: {_quote(response)}")


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


def _quote(response: str) -> str:
    text = " ".join(response.split())
    return repr(text if len(text) <= 160 else text[:157] + "...")
