"""MMStar: 1,500 questions that need their picture."""

from __future__ import annotations

from ..types import Example
from .choices import choice, inline_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row


def _example(row: Row) -> Example:
    question, answer = row["question"], row["answer"].strip()
    return Example(
        (picture(row["image"]),), question, answer=answer, gold=choice(inline_options(question), answer)
    )  # the question lists its options itself


MMSTAR = Source(
    "mmstar", "MMStar", 1500, "not stated", ("Lin-Chen/MMStar",), ("mmstar.parquet",), "MMStar",
    ("index", "question", "image", "answer"), lambda row: str(row["index"]), _example, free="choice",
)  # fmt: skip
