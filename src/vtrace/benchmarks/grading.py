"""Grading: correct, wrong, or neither. Deterministic, without a judge; text written by a model is never executed.

Only the text after the last "Final answer:" is graded; reasoning is never searched for letters.

| kind | correct is |
|---|---|
| words | the gold words, up to case, blanks, articles and punctuation |
| phrase | the gold words, anywhere in the answer |
| choice | the letter, or the text or number of exactly that option |
| maths | the same number, or the same formula as text |
| yesno | yes or no, as expected |

Written by hand because graders in libraries either call a language model or, like math-verify, evaluate the answer
with sympy, which is slow and may never finish on text written by a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase, whitespace
from typing import Literal, NamedTuple

from ..types import AnswerKind, Example, Gold
from .quantity import LONGEST_ANSWER, find_quantity, plain_signs, read_quantity, same_quantity

Verdict = Literal["correct", "wrong", "unparsed", "undecided"]
CORRECT: dict[Verdict, bool | None] = {"correct": True, "wrong": False, "unparsed": False, "undecided": None}

_WRAPPERS = ("boxed", "text", "textbf", "mathrm", "mathbf", "mathit", "fbox")
_QUOTES = "\"'“”‘’«»`*_ \t\n"
_NEGATION = re.compile(r"\b(?:not|no|none|neither|nor|never|except|cannot|\w+n['’]t)\b", re.IGNORECASE)
_LETTER = "(?<![A-Za-z'’])([A-Z])(?![A-Za-z'’])"


def grade(example: Example, answer: str | None) -> Verdict | None:
    """The verdict on a final answer; None if the correct answer is not known.

    "unparsed" means that there is no answer or that it cannot be read, and counts as wrong; "undecided" means that
    only a judge could decide, and counts as neither.
    """
    gold = example.gold or (None if example.answer is None else Gold("words", (example.answer,)))
    if gold is None:
        return None
    text = tidy_answer(answer or "")
    return _GRADERS[gold.kind](gold, text) if text else "unparsed"


def tidy_answer(text: str) -> str:
    """The answer without markdown, LaTeX wrappers, quotes and a closing full stop; only the beginning of a long one."""
    text = plain_signs(text[:LONGEST_ANSWER]).strip(_QUOTES)
    for _ in range(4):
        before = text
        text = _unwrapped(_undelimited(text)).strip(_QUOTES)
        if text == before:
            break
    return re.sub(r"(?<!\.)\.$", "", text).strip(_QUOTES)


def _undelimited(text: str) -> str:
    """The formula between $ and $, \\( and \\), or \\[ and \\]."""
    opened, ended = re.match(r"\\[\[(]|\$+", text), text.rstrip(f".{whitespace}")
    if not opened or not ended.endswith(("\\]", "\\)", "$")):
        return text
    return (ended.rstrip("$") if ended.endswith("$") else ended[:-2])[opened.end() :].strip()


def _unwrapped(text: str) -> str:
    """The contents of the last `\\boxed{…}`; other wrappers are replaced by their contents. Braces may be nested."""
    for command in _WRAPPERS:
        while (start := text.rfind(f"\\{command}{{")) >= 0:
            open_at = start + len(command) + 2
            depth, end = 1, open_at
            while end < len(text) and depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            held = text[open_at : end - (depth == 0)]
            text = held if command == "boxed" else text[:start] + held + text[end:]
    return text


def same_words(one: str, other: str) -> bool:
    return normal_words(one) == normal_words(other)


def normal_words(text: str) -> str:
    """Lower case, single blanks, no leading article, no punctuation at the ends."""
    text = " ".join(plain_signs(text).lower().split()).strip(" .,;:!?\"'()")
    return re.sub(r"^(?:an?|the) (?=.)", "", text)


def _words(gold: Gold, text: str) -> Verdict:
    return "correct" if any(same_words(text, right) for right in gold.answers) else "wrong"


def _phrase(gold: Gold, text: str) -> Verdict:
    """Numbers are compared as numbers; words may be part of a longer answer, unless it contains a negation."""
    if any(same_words(text, right) for right in gold.answers):
        return "correct"
    numbers = [quantity for right in gold.answers if (quantity := read_quantity(right))]
    if len(numbers) == len(gold.answers):
        return _maths(gold, text)
    within = any(_contains(text, right) for right in gold.answers)
    if within and _NEGATION.search(text):
        return "undecided"
    return "correct" if within else "wrong"


def _contains(text: str, part: str) -> bool:
    part = normal_words(part)
    return bool(part) and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", " ".join(text.lower().split())) is not None


def _yesno(gold: Gold, text: str) -> Verdict:
    first = re.match(r"\W*(yes|no)\b(?!\s+or\b)", text.lower())
    said = {first[1]} if first else set(re.findall(r"\b(yes|no)\b", text.lower()))
    if len(said) != 1:
        return "unparsed"
    return "correct" if said.pop() in (right.lower() for right in gold.answers) else "wrong"


def _maths(gold: Gold, text: str) -> Verdict:
    rights = [tidy_answer(right) for right in gold.answers]
    if any(_formula(text) == _formula(right) for right in rights):
        return "correct"
    for right in rights:
        if (several := _list(right)) is not None:
            return _lists(several, text, gold.decimals)
        expected, found = read_quantity(right), find_quantity(text)
        if expected is None:
            return "undecided"  # a formula, which may be equal in another form
        if found is None:
            return "unparsed"
        if same_quantity(found, expected, gold.decimals):
            return "correct"
    return "wrong"


def _list(text: str) -> list[str] | None:
    text = text.strip()
    return [part.strip() for part in text[1:-1].split(",")] if text[:1] == "[" and text[-1:] == "]" else None


def _lists(gold: list[str], text: str, decimals: int | None) -> Verdict:
    found = _list(text) or [part.strip() for part in text.split(",")]
    if len(found) != len(gold):
        return "wrong"
    pairs = zip(gold, found, strict=True)
    verdicts = {_maths(Gold("maths", (right,), decimals=decimals), part) for right, part in pairs}
    return "correct" if verdicts == {"correct"} else "wrong"


def _formula(text: str) -> str:
    return re.sub(r"\s|\\left|\\right|\\[,;:!]", "", text.replace("dfrac", "frac").replace("tfrac", "frac")).lower()


def _choice(gold: Gold, text: str) -> Verdict:
    letter = read_letter(text, gold.options)
    if letter is None:
        return "unparsed"
    return "correct" if letter in gold.answers else "wrong"


class LetteredOption(NamedTuple):
    """An option of a multiple-choice question."""

    letter: str
    text: str


def lettered(options: Sequence[str]) -> list[LetteredOption]:
    return [LetteredOption(letter, text) for letter, text in zip(ascii_uppercase, options, strict=False)]


def read_letter(text: str, options: Sequence[str] = ()) -> str | None:
    """The letter of the one option that an answer names, by letter, text or number; None if it names none or two."""
    letters = ascii_uppercase[: len(options) or 10]
    alone = re.fullmatch(r"[(\[{]?\s*([A-Za-z])\s*[)\]}]?[.:,]?", text)
    if alone:
        return alone[1].upper() if alone[1].upper() in letters else None
    by_text = [letter for letter, option in lettered(options) if option and same_words(text, option)]
    if len(by_text) == 1:
        return by_text[0]
    named = _named_letters(text, letters, options)
    if named:
        return named.pop() if len(named) == 1 else None
    if _NEGATION.search(text) is None:
        within = [letter for letter, option in lettered(options) if _contains(text, option)]
        if len(within) == 1:
            return within[0]
        if within:
            return None
    return _by_number(text, options)


def _named_letters(text: str, letters: str, options: Sequence[str]) -> set[str]:
    """Letters that name options in a longer answer. The article in "A dog" does not count."""
    several = re.search(rf"{_LETTER}[)\]]?\s*(?:,|/|&|\band\b|\bor\b)\s*[(\[]?{_LETTER}(?! \w)", text)
    if several:
        return set(several.groups())
    labelled = re.match(rf"[(\[]?([A-Za-z])[)\]][.:,]?(?:\s|$)|{_LETTER}(?:[.:,]| [-–—])(?:\s|$)", text)
    rest = text[labelled.end() :] if labelled else text
    found = {(labelled[1] or labelled[2]).upper()} if labelled else set()
    found |= set(re.findall(r"\(([A-Z])\)", rest))
    found |= set(re.findall(rf"(?:[Oo]ption|[Cc]hoice|[Aa]nswer|\bis)\s*:?\s*[(\[]?{_LETTER}", rest))
    if not found and (own := re.match(rf"{_LETTER}\s+(.+)", text)):
        index = ascii_uppercase.index(own[1])
        if index < len(options) and same_words(own[2], options[index]):
            found = {own[1]}
    if not found and _NEGATION.search(text) is None:
        found = set(re.findall(_LETTER, text)) - {"I"}
        if found == {"A"} and not re.search(r"(?<=\w )A[.!]?$", text):
            found = set()  # an article, unless it closes the sentence
    return {letter for letter in found if letter in letters}


def _by_number(text: str, options: Sequence[str]) -> str | None:
    found = find_quantity(text)
    if found is None:
        return None
    known = [(letter, read_quantity(option)) for letter, option in lettered(options)]
    equal = [letter for letter, quantity in known if quantity and same_quantity(found, quantity)]
    return equal[0] if len(equal) == 1 else None


_GRADERS: dict[AnswerKind, Callable[[Gold, str], Verdict]] = {
    "words": _words,
    "phrase": _phrase,
    "choice": _choice,
    "maths": _maths,
    "yesno": _yesno,
}
