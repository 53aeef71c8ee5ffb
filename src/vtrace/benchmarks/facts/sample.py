"""Facts, a seeded benchmark of words alone: a few facts and a question whose evidence is known by construction."""

from __future__ import annotations

import hashlib
import random
from typing import Literal, get_args

from ...types import Example
from ..marked_text import unmark
from .questions import FACT_TASKS

FACTS_SIZE = 1200
FACTS_PROMPT = "Answer with one short sentence from the facts."
FACTS_TOKENS = 24  # of a response, which ends with its first sentence
FactsSplit = Literal["dev", "test"]
FACTS_SPLITS: tuple[FactsSplit, ...] = get_args(FactsSplit)


def fact_example(split: FactsSplit, number: int) -> Example:
    """The example of a split with this number. Tasks take turns; everything else is seeded by split and number."""
    task = list(FACT_TASKS)[number % len(FACT_TASKS)]
    rng = random.Random(f"facts/{split}/{number}")
    while True:
        draft = FACT_TASKS[task](rng)
        if _split_of(draft.question) == split:
            break
    question, evidence, others = unmark(draft.question)
    return Example(
        (),
        question,
        fact_key(split, number),
        draft.answer,
        evidence_words=evidence,
        other_words=others,
        answer_names=draft.names,
        one_sentence=True,
    )


def fact_key(split: FactsSplit, number: int) -> str:
    return f"{split}-{number:05d}"


def _split_of(question: str) -> FactsSplit:
    """The split of these facts: a function of the text, so splits cannot overlap."""
    return FACTS_SPLITS[hashlib.sha256(question.encode()).digest()[0] % len(FACTS_SPLITS)]
