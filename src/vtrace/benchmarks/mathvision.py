"""MathVision: problems of mathematics competitions."""

from __future__ import annotations

from dataclasses import replace

from ..types import Example, Gold
from .choices import choice, drawn, with_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row


def _example(row: Row) -> Example:
    options, answer = drawn(tuple(row["options"] or ())), row["answer"].strip()
    gold = choice(options, answer) if options else None
    image = picture(row["decoded_image"])  # `image` is only a path
    # Two decimals, as MathVision itself compares.
    return Example(
        (image,), with_options(row["question"], options), answer=answer,
        gold=gold or Gold("maths", (answer,), decimals=2),
    )  # fmt: skip


MATHVISION = Source(
    "mathvision", "MathVision (test)", 3040, "MIT", ("MathLLMs/MathVision",), ("data/test-*.parquet",), "MathVision",
    ("id", "question", "options", "decoded_image", "answer"), lambda row: str(row["id"]), _example, free="maths",
)  # fmt: skip
MATHVISION_MINI = replace(
    MATHVISION, name="mathvision-mini", title="MathVision (testmini)", size=304, files=("data/testmini-*.parquet",),
    tsv="MathVision_MINI",
)  # fmt: skip
