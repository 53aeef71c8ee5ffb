"""HallusionBench, the part with pictures: yes or no about what is, and is not, shown."""

from __future__ import annotations

from ..types import Example, Gold
from .pictures import picture
from .rows import Row
from .source import Source

_ANSWERS = {"0": "no", "1": "yes"}  # texts in the file, as all of its numbers are


def _example(row: Row) -> Example:
    answer = _ANSWERS[str(row["gt_answer"])]
    question = f"{row['question']} Answer yes or no."
    return Example((picture(row["image"]),), question, answer=answer, gold=Gold("yesno", (answer,)))


def _key(row: Row) -> str:
    return "_".join(str(row[name]) for name in ("category", "subcategory", "set_id", "figure_id", "question_id"))


HALLUSIONBENCH = Source(
    "hallusionbench", "HallusionBench (with pictures)", 951, "not stated",
    ("lmms-lab/HallusionBench", "lmms-lab-encoder/HallusionBench"), ("data/image-*.parquet",), "HallusionBench",
    ("category", "subcategory", "set_id", "figure_id", "question_id", "question", "gt_answer", "image"),
    _key, _example, free="yesno",
)  # fmt: skip
