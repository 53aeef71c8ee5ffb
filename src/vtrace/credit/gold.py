"""The correct answer of a training row: how to grade it, found from the question and the answer as text.

Training data have one column with the answer, written in many ways: a letter, the text of an option, a number with or
without LaTeX, a word. The grader has to know which; an evaluation knows it from the benchmark.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from itertools import pairwise
from typing import get_args

from ..benchmarks.grading import grade, read_letter, tidy_answer
from ..benchmarks.multiple_choice import choice_gold, inline_options
from ..benchmarks.quantity import read_quantity
from ..errors import InputError, first_line
from ..system.json_reader import parse_json
from ..types import AnswerKind, Example, Gold

_MOST_WORDS = 5  # a longer text can be said in too many ways to compare it word for word
_LONGEST = 200  # characters of an answer that is not an option
_TAG = re.compile("</?answer>", re.IGNORECASE)
_LETTER = re.compile(r"[(\[{]?\s*([A-Ja-j])\s*[)\]}]?[.:]?")
_SEVERAL_LETTERS = re.compile(r"[A-J](?:\s*(?:,|;|&|/|\band\b)?\s*[A-J])+")
_PHRASE = re.compile(r"(?=.*[^\W\d_])[\w\s'’.,:&%/()-]+|\d+(?::\d+)+", re.DOTALL)  # words, or 3:45
_EQUATION = re.compile(r"[\d+*/^(=-].*=")  # x^2 + y^2 = 25, but not AB = 25, which is a number


def infer_gold(question: str, answer: str, formulas: bool = False) -> Gold | None:
    """How to grade a row; None if only a judge could grade it.

    With `formulas`, an answer that is neither a number nor words, such as an equation, is graded too: only the same
    formula, written the same way, is correct.
    """
    text = tidy_answer(_tagged(answer) or answer)
    gold = _infer(inline_options(question), text, formulas) if text else None
    if gold is None or grade(Example((), question, gold=gold), text) != "correct":
        return None
    return gold


def _tagged(answer: str) -> str:
    """What stands between the last pair of tags; empty if there is none."""
    tags = list(_TAG.finditer(answer))
    pairs = [(one, two) for one, two in pairwise(tags) if len(one[0]) < len(two[0])]
    return answer[pairs[-1][0].end() : pairs[-1][1].start()] if pairs else ""


def _infer(options: tuple[str, ...], text: str, formulas: bool) -> Gold | None:
    letter = _LETTER.fullmatch(text)
    if letter and (options or letter[1].isupper()):
        return choice_gold(options, letter[1].upper()) or Gold("choice", (letter[1].upper(),))
    if options:  # an answer that names none of them, or several, cannot be compared with the letter of a response
        named = None if _SEVERAL_LETTERS.fullmatch(text) else read_letter(text, options)
        return Gold("choice", (named,), options) if named else None
    if len(text) > _LONGEST:
        return None
    if text.lower() in ("yes", "no"):
        return Gold("yesno", (text.lower(),))
    if read_quantity(text):  # the grader would take an equation for the number on its right
        return None if _EQUATION.search(text) else Gold("maths", (text,))
    if _PHRASE.fullmatch(text):
        return Gold("words", (text,)) if len(text.split()) <= _MOST_WORDS else None
    return Gold("maths", (text,)) if formulas and re.search(r"\w", text) else None


def gold_to_json(gold: Gold) -> str:
    """One line of JSON, for a text column of a training row."""
    return json.dumps(asdict(gold), ensure_ascii=False)


def gold_from_json(text: str) -> Gold:
    """The reverse of `gold_to_json`."""
    problem = "this is not the gold of a training row"
    try:
        fields = parse_json(text, problem)
        kind, decimals = fields["kind"], fields.get("decimals")
        answers, options = (tuple(map(str, fields.get(name) or ())) for name in ("answers", "options"))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{problem}: {first_line(error)}") from error
    if kind not in get_args(AnswerKind) or not answers or not isinstance(decimals, int | None):
        raise InputError(f"{problem}: it needs a kind that is known, and an answer")
    return Gold(kind, answers, options, decimals)
