"""MMStar: 1,500 questions that need their picture."""

from __future__ import annotations

from ..types import Example
from .multiple_choice import choice_gold, inline_options
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow


def _example(row: DatasetRow) -> Example:
    question, answer = row["question"], row["answer"].strip()
    gold = choice_gold(inline_options(question), answer)  # the question lists its options itself
    return Example((decode_picture(row["image"]),), question, answer=answer, gold=gold)


MMSTAR = PublicBenchmark(
    name="mmstar",
    title="MMStar",
    size=1500,
    licence="not stated",
    hub=("Lin-Chen/MMStar",),
    files=("mmstar.parquet",),
    tsv="MMStar",
    columns=("index", "question", "image", "answer"),
    key=lambda row: str(row["index"]),
    example=_example,
    free="choice",
)
