"""RealWorldQA: photographs, many of them from cars."""

from __future__ import annotations

from ..types import Example, Gold
from .choices import choice, inline_options, without_request
from .published import Source
from .quantity import read_quantity
from .readers.pictures import picture
from .readers.rows import Row


def _example(row: Row) -> Example:
    question, answer = without_request(row["question"]), row["answer"].strip()
    gold = choice(inline_options(question), answer) if len(answer) == 1 and answer.isalpha() else None
    if gold is None:
        gold = Gold("maths" if read_quantity(answer) else "words", (answer,))
    return Example((picture(row["image"]),), question, answer=answer, gold=gold)


REALWORLDQA = Source(
    "realworldqa", "RealWorldQA", 765, "CC BY-ND 4.0",
    ("lmms-lab/RealWorldQA", "lmms-lab-encoder/RealWorldQA", "xai-org/RealworldQA"), ("data/test-*.parquet",),
    "RealWorldQA", ("image", "question", "answer"), lambda row: str(row.get("image_path") or ""), _example,
)  # fmt: skip
