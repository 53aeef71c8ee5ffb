"""MathVision: problems from mathematics competitions."""

from __future__ import annotations

from dataclasses import replace

from ..types import Example, Gold
from .multiple_choice import choice_gold, with_options, without_bare_letters
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow


def _example(row: DatasetRow) -> Example:
    options, answer = without_bare_letters(tuple(row["options"] or ())), row["answer"].strip()
    gold = choice_gold(options, answer) if options else None
    gold = gold or Gold("maths", (answer,), decimals=2)  # as its authors compare
    image = decode_picture(row["decoded_image"])  # `image` is only a path
    return Example((image,), with_options(row["question"], options), answer=answer, gold=gold)


MATHVISION = PublicBenchmark(
    name="mathvision",
    title="MathVision (test)",
    size=3040,
    licence="MIT",
    hub=("MathLLMs/MathVision",),
    files=("data/test-*.parquet",),
    tsv="MathVision",
    columns=("id", "question", "options", "decoded_image", "answer"),
    key=lambda row: str(row["id"]),
    example=_example,
    free="maths",
)
MATHVISION_MINI = replace(
    MATHVISION,
    name="mathvision-mini",
    title="MathVision (testmini)",
    size=304,
    files=("data/testmini-*.parquet",),
    tsv="MathVision_MINI",
)
