"""MathVerse, testmini: geometry and functions, each problem in five versions that move text into the picture."""

from __future__ import annotations

from ..types import Example, Gold
from .choices import choice, inline_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row

_IN_PICTURE = "Answer the question in the picture."  # the version "Vision Only" has no text of its own


def _example(row: Row) -> Example:
    question, answer = (row["question"] or "").strip(), row["answer"].strip()
    options = inline_options(question)
    gold = choice(options, answer) if row["question_type"] == "multi-choice" else None
    return Example(
        (picture(row["image"]),), question or _IN_PICTURE, answer=answer, gold=gold or Gold("maths", (answer,))
    )


MATHVERSE = Source(
    "mathverse", "MathVerse (testmini)", 3940, "MIT", ("AI4Math/MathVerse",), ("testmini.parquet",), "MathVerse_MINI",
    ("sample_index", "question", "image", "answer", "question_type"), lambda row: str(row["sample_index"]), _example,
    free="maths",
)  # fmt: skip
