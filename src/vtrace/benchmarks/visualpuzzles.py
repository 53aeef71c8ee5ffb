"""VisualPuzzles: reasoning over pictures with little need for knowledge."""

from __future__ import annotations

from ..types import Example
from .choices import choice, with_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row


def _example(row: Row) -> Example:
    options = tuple(row["options"] or ("",) * 4)  # none: A to D are drawn in the picture
    answer = row["answer"].strip()
    return Example(
        (picture(row["image"]),), with_options(row["question"], options), answer=answer, gold=choice(options, answer)
    )


VISUALPUZZLES = Source(
    "visualpuzzles", "VisualPuzzles", 1168, "MIT", ("neulab/VisualPuzzles",),
    ("*.parquet",),  # its only split, which was renamed
    "VisualPuzzles", ("id", "image", "question", "options", "answer"), lambda row: str(row["id"]), _example,
    free="choice",
)  # fmt: skip
