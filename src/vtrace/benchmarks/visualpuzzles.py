"""VisualPuzzles: reasoning over pictures with little need for knowledge."""

from __future__ import annotations

from ..types import Example
from .multiple_choice import choice_gold, with_options
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow


def _example(row: DatasetRow) -> Example:
    options = tuple(row["options"] or ("",) * 4)  # none: A to D are drawn in the picture
    answer = row["answer"].strip()
    return Example(
        (decode_picture(row["image"]),),
        with_options(row["question"], options),
        answer=answer,
        gold=choice_gold(options, answer),
    )


VISUALPUZZLES = PublicBenchmark(
    name="visualpuzzles",
    title="VisualPuzzles",
    size=1168,
    licence="MIT",
    hub=("neulab/VisualPuzzles",),
    files=("*.parquet",),  # its only split, which was renamed
    tsv="VisualPuzzles",
    columns=("id", "image", "question", "options", "answer"),
    key=lambda row: str(row["id"]),
    example=_example,
    free="choice",
)
