"""Options of multiple-choice questions: written under a question, and found inside one."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from ..types import Gold
from .grading import lettered, same_words

YES_OR_NO = "Answer yes or no."  # what questions of this kind ask for
_HEADING = re.compile(r"\b(?:options|choices)\s*:", re.IGNORECASE)
_CURT = re.compile(r"\s*Please answer directly with [^.\n]*\.?\s*$")


def yes_or_no(answer: Any) -> str:
    """Some files write 1 and 0."""
    return {"1": "yes", "0": "no"}.get(str(answer), str(answer))


def with_options(question: str, options: Sequence[str]) -> str:
    """The question and its options, a line each; options without a text are drawn in the picture."""
    if not options:
        return question
    if not any(options):
        return f"{question}\nChoose from {', '.join(ascii_uppercase[: len(options)])} in the picture."
    lines = [f"({letter}) {option}" for letter, option in lettered(options)]
    return "\n".join([question, *lines])


def without_request(question: str) -> str:
    """The question without a closing request to answer at once, which contradicts the one to reason first."""
    return _CURT.sub("", question)


def inline_options(question: str) -> tuple[str, ...]:
    """Texts of the options that a question lists itself, as in "Options: A: cat, B: dog"; empty if it lists none."""
    headings = list(_HEADING.finditer(question))
    text = question[headings[-1].end() :] if headings else question
    blank = r"(?:^|(?<=[\s,;]))" if headings else r"^[ \t]*"
    spans: list[tuple[int, int]] = []
    for letter in ascii_uppercase:
        start = spans[-1][1] if spans else 0
        label = re.compile(rf"{blank}\(?{letter}\s*[:.)]\s*", re.MULTILINE).search(text, start)
        if label is None:
            break
        spans.append(label.span())
    if len(spans) < 2:
        return ()
    stops = [start for start, _ in spans[1:]] + [len(text)]
    return tuple(text[end:stop].strip().rstrip(",;").strip() for (_, end), stop in zip(spans, stops, strict=True))


def literal_list(cell: Any) -> tuple[str, ...]:
    """Options that are a list, or the text of one, as in "['one', 'two']"; empty if there are none."""
    if isinstance(cell, str):
        cell = ast.literal_eval(cell) if cell.strip() else ()
    return tuple(str(option) for option in cell or ())


def drawn(options: Sequence[str]) -> tuple[str, ...]:
    """Options that only repeat their letters are drawn in the picture: their texts say nothing."""
    letters = ascii_uppercase[: len(options)]
    return ("",) * len(options) if [option.strip() for option in options] == list(letters) else tuple(options)


def choice(options: Sequence[str], answer: str) -> Gold | None:
    """The gold of a multiple-choice question whose answer is a letter or the text of an option."""
    letters = ascii_uppercase[: len(options) or 10]
    if answer.strip() in letters and len(answer.strip()) == 1:
        return Gold("choice", (answer.strip(),), tuple(options))
    equal = [letter for letter, option in lettered(options) if same_words(option, answer)]
    return Gold("choice", tuple(equal), tuple(options)) if equal else None
