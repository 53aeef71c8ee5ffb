"""HallusionBench, the part with pictures: yes or no about what is, and is not, shown."""

from __future__ import annotations

from ..types import Example, Gold
from .choices import YES_OR_NO, yes_or_no
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row


def _example(row: Row) -> Example:
    answer = yes_or_no(row["gt_answer"])
    question = f"{row['question']} {YES_OR_NO}"
    return Example((picture(row["image"]),), question, answer=answer, gold=Gold("yesno", (answer,)))


def _key(row: Row) -> str:
    return "_".join(str(row[name]) for name in ("category", "subcategory", "set_id", "figure_id", "question_id"))


HALLUSIONBENCH = Source(
    "hallusionbench", "HallusionBench (with pictures)", 951, "not stated",
    ("lmms-lab/HallusionBench", "lmms-lab-encoder/HallusionBench"), ("data/image-*.parquet",), "HallusionBench",
    ("category", "subcategory", "set_id", "figure_id", "question_id", "question", "gt_answer", "image"),
    _key, _example, free="yesno",
)  # fmt: skip
