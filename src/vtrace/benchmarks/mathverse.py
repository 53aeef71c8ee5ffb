"""MathVerse, testmini: geometry and functions, each problem in five versions that move text into the picture."""

from __future__ import annotations

from ..types import Example, Gold
from .multiple_choice import choice_gold, inline_options
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow

_IN_PICTURE = "Answer the question in the picture."  # the version "Vision Only" has no text of its own


def _example(row: DatasetRow) -> Example:
    question, answer = (row["question"] or "").strip(), row["answer"].strip()
    options = inline_options(question)
    gold = choice_gold(options, answer) if row["question_type"] == "multi-choice" else None
    gold = gold or Gold("maths", (answer,))
    return Example((decode_picture(row["image"]),), question or _IN_PICTURE, answer=answer, gold=gold)


MATHVERSE = PublicBenchmark(
    name="mathverse",
    title="MathVerse (testmini)",
    size=3940,
    licence="MIT",
    hub=("AI4Math/MathVerse",),
    files=("testmini.parquet",),
    tsv="MathVerse_MINI",
    columns=("sample_index", "question", "image", "answer", "question_type"),
    key=lambda row: str(row["sample_index"]),
    example=_example,
    free="maths",
)
