"""MMMU (validation) and MMMU-Pro: questions of university courses, some with several pictures."""

from __future__ import annotations

import re

from ..errors import InputError
from ..types import Example, Gold
from .choices import choice, literal_list, with_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row

_MARK = re.compile(r"<image (\d)>")
_IN_PICTURE = "Answer the multiple-choice question in the picture."


def _example(row: Row) -> Example:
    options = literal_list(row["options"])  # a text, such as "['one', 'two']"
    text = with_options(row["question"], options)
    referred = sorted({int(number) for number in _MARK.findall(text)})
    numbers = referred or [number for number in range(1, 8) if row.get(f"image_{number}")]
    if gap := next((number for number in numbers if not row.get(f"image_{number}")), None):
        raise InputError(f"the question refers to <image {gap}>, but the dataset has no such picture")
    images = tuple(picture(row[f"image_{number}"]) for number in numbers)
    question = _MARK.sub(lambda mark: f"<image {numbers.index(int(mark[1])) + 1}>", text)
    answer = row["answer"].strip()
    gold = choice(options, answer) if options else None
    return Example(images, question, answer=answer, gold=gold or _open(answer))


def _open(answer: str) -> Gold:
    """An open question; some have several right answers. Numbers count to two decimals, as MMMU itself compares."""
    several = literal_list(answer) if answer.startswith("[") else (answer,)
    return Gold("phrase", several, decimals=2)


def _seen(row: Row) -> Example:
    """The question and its options are part of the picture."""
    options, answer = literal_list(row["options"]), row["answer"].strip()
    return Example((picture(row["image"]),), _IN_PICTURE, answer=answer, gold=choice(options, answer))


def _key(row: Row) -> str:
    return str(row["id"])


_COLUMNS = ("id", "question", "options", "image_1", "answer")
_PRO = ("MMMU/MMMU_Pro",)

MMMU = Source(
    "mmmu", "MMMU (validation)", 900, "Apache 2.0", ("MMMU/MMMU", "lmms-lab/MMMU", "lmms-lab-encoder/MMMU"),
    ("*/validation-*.parquet",), "MMMU_DEV_VAL", _COLUMNS, _key, _example, free="phrase",
    keep=lambda row: row.get("split", "validation") == "validation",  # VLMEvalKit has both splits in one file
)  # fmt: skip
MMMU_PRO = Source(
    "mmmu-pro", "MMMU-Pro (standard, 10 options)", 1730, "Apache 2.0", _PRO,
    ("standard (10 options)/test-*.parquet",), "MMMU_Pro_10c", _COLUMNS, _key, _example, free="choice",
)  # fmt: skip
MMMU_PRO_4 = Source(
    "mmmu-pro-4", "MMMU-Pro (standard, 4 options)", 1730, "Apache 2.0", _PRO,
    ("standard (4 options)/test-*.parquet",), "MMMU_Pro_4c", _COLUMNS, _key, _example, free="choice",
)  # fmt: skip
MMMU_PRO_VISION = Source(
    "mmmu-pro-vision", "MMMU-Pro (vision)", 1730, "Apache 2.0", _PRO, ("vision/test-*.parquet",), "MMMU_Pro_V",
    ("id", "image", "options", "answer"), _key, _seen, free="choice",
)  # fmt: skip
