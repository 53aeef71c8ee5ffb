"""Options of multiple-choice questions: listing them below a question, and finding them in one."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

from ..errors import InputError
from ..types import Gold
from .grading import lettered, same_words

YES_OR_NO = "Answer yes or no."  # the request added to yes/no questions
_LONGEST_LIST = 100_000_000  # characters; pictures in base64 are also listed this way
_HEADING = re.compile(r"\b(?:options|choices)\s*:", re.IGNORECASE)
_CURT_REQUEST = re.compile(r"Please answer directly with [^.\n]*\.?\s*$")


def yes_or_no(answer: object) -> str:
    """Some files write 1 and 0."""
    return {"1": "yes", "0": "no"}.get(str(answer), str(answer))


def with_options(question: str, options: Sequence[str]) -> str:
    """The question with one option per line below it. Options without text are drawn in the picture."""
    if not options:
        return question
    if not any(options):
        return f"{question}\nChoose from {', '.join(ascii_uppercase[: len(options)])} in the picture."
    lines = [f"({letter}) {option}" for letter, option in lettered(options)]
    return "\n".join([question, *lines])


def without_curt_request(question: str) -> str:
    """The question without a closing request to answer directly, which contradicts the request to reason first."""
    found = _CURT_REQUEST.search(question)
    return question[: found.start()].rstrip() if found else question


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


def literal_list(cell: str | Iterable[object] | None) -> tuple[str, ...]:
    """Options given as a list, or as the text of one such as "['one', 'two']"; empty if there are none."""
    if isinstance(cell, str):
        cell = _literal(cell) if cell.strip() else ()
    return tuple(str(option) for option in cell or ())


def _literal(text: str) -> list | tuple:
    problem = f"{text[:40]!r} is not a list"
    if len(text) > _LONGEST_LIST:
        raise InputError(problem)
    try:
        with warnings.catch_warnings(action="ignore"):  # the parser's remarks on what is nearly Python
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(problem) from error
    if not isinstance(found, list | tuple):
        raise InputError(problem)
    return found


def without_bare_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Options that only repeat their letters are drawn in the picture: their texts become empty."""
    letters = ascii_uppercase[: len(options)]
    return ("",) * len(options) if [option.strip() for option in options] == list(letters) else tuple(options)


def choice_gold(options: Sequence[str], answer: str) -> Gold | None:
    """The correct answer of a multiple-choice question, given as a letter or as the text of an option."""
    letters = ascii_uppercase[: len(options) or 10]
    if answer.strip() in letters and len(answer.strip()) == 1:
        return Gold("choice", (answer.strip(),), tuple(options))
    equal = [letter for letter, option in lettered(options) if same_words(option, answer)]
    return Gold("choice", tuple(equal), tuple(options)) if equal else None
