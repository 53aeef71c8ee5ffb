"""HallusionBench, the part with pictures: yes/no questions about what is and is not shown."""

from __future__ import annotations

from ..types import Example, Gold
from .multiple_choice import YES_OR_NO, yes_or_no
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow


def _example(row: DatasetRow) -> Example:
    answer = yes_or_no(row["gt_answer"])
    question = f"{row['question']} {YES_OR_NO}"
    return Example((decode_picture(row["image"]),), question, answer=answer, gold=Gold("yesno", (answer,)))


def _key(row: DatasetRow) -> str:
    return "_".join(str(row[name]) for name in ("category", "subcategory", "set_id", "figure_id", "question_id"))


HALLUSIONBENCH = PublicBenchmark(
    name="hallusionbench",
    title="HallusionBench (with pictures)",
    size=951,
    licence="not stated",
    hub=("lmms-lab/HallusionBench", "lmms-lab-encoder/HallusionBench"),
    files=("data/image-*.parquet",),
    tsv="HallusionBench",
    columns=("category", "subcategory", "set_id", "figure_id", "question_id", "question", "gt_answer", "image"),
    key=_key,
    example=_example,
    free="yesno",
)
