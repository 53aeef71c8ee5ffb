"""Questions written with marks: `{word}` for what the answer depends on, `[word]` for what could be mistaken for it."""

from __future__ import annotations

from typing import NamedTuple

from ..types import Span

_CLOSED_BY = {"{": "}", "[": "]"}


class UnmarkedText(NamedTuple):
    """A text without its marks, and the character spans of the marked words."""

    text: str
    evidence: tuple[Span, ...]
    others: tuple[Span, ...]


def unmark(marked: str) -> UnmarkedText:
    text, start = "", 0
    spans: dict[str, list[Span]] = {closing: [] for closing in _CLOSED_BY.values()}
    for character in marked:
        if character in _CLOSED_BY:
            start = len(text)
        elif character in spans:
            spans[character].append(Span(start, len(text)))
        else:
            text += character
    return UnmarkedText(text, tuple(spans["}"]), tuple(spans["]"]))
