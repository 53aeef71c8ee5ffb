"""MMMU (validation) and MMMU-Pro: university-level questions, some with several pictures."""

from __future__ import annotations

import re
from dataclasses import replace

from ..errors import InputError
from ..types import Example, Gold
from .multiple_choice import choice_gold, literal_list, with_options
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow

_MARK = re.compile(r"<image (\d)>")
_IN_PICTURE = "Answer the multiple-choice question in the picture."


def _example(row: DatasetRow) -> Example:
    options = literal_list(row["options"])  # a text, such as "['one', 'two']"
    text = with_options(row["question"], options)
    referred = sorted({int(number) for number in _MARK.findall(text)})
    numbers = referred or [number for number in range(1, 8) if row.get(f"image_{number}")]
    if gap := next((number for number in numbers if not row.get(f"image_{number}")), None):
        raise InputError(f"the question refers to <image {gap}>, but the dataset has no such picture")
    images = tuple(decode_picture(row[f"image_{number}"]) for number in numbers)
    question = _MARK.sub(lambda mark: f"<image {numbers.index(int(mark[1])) + 1}>", text)
    answer = row["answer"].strip()
    gold = choice_gold(options, answer) if options else None
    return Example(images, question, answer=answer, gold=gold or _open(answer))


def _open(answer: str) -> Gold:
    """An open question; some have several right answers. Numbers are compared to two decimals, as its authors do."""
    several = literal_list(answer) if answer.startswith("[") else (answer,)
    return Gold("phrase", several, decimals=2)


def _seen(row: DatasetRow) -> Example:
    """The question and its options are part of the picture."""
    options, answer = literal_list(row["options"]), row["answer"].strip()
    return Example((decode_picture(row["image"]),), _IN_PICTURE, answer=answer, gold=choice_gold(options, answer))


def _key(row: DatasetRow) -> str:
    return str(row["id"])


_COLUMNS = ("id", "question", "options", "image_1", "answer")

MMMU = PublicBenchmark(
    name="mmmu",
    title="MMMU (validation)",
    size=900,
    licence="Apache 2.0",
    hub=("MMMU/MMMU", "lmms-lab/MMMU", "lmms-lab-encoder/MMMU"),
    files=("*/validation-*.parquet",),
    tsv="MMMU_DEV_VAL",
    columns=_COLUMNS,
    key=_key,
    example=_example,
    free="phrase",
    keep=lambda row: row.get("split", "validation") == "validation",  # VLMEvalKit has both splits in one file
)
MMMU_PRO = PublicBenchmark(
    name="mmmu-pro",
    title="MMMU-Pro (standard, 10 options)",
    size=1730,
    licence="Apache 2.0",
    hub=("MMMU/MMMU_Pro",),
    files=("standard (10 options)/test-*.parquet",),
    tsv="MMMU_Pro_10c",
    columns=_COLUMNS,
    key=_key,
    example=_example,
    free="choice",
)
MMMU_PRO_4 = replace(
    MMMU_PRO,
    name="mmmu-pro-4",
    title="MMMU-Pro (standard, 4 options)",
    files=("standard (4 options)/test-*.parquet",),
    tsv="MMMU_Pro_4c",
)
MMMU_PRO_VISION = PublicBenchmark(
    name="mmmu-pro-vision",
    title="MMMU-Pro (vision)",
    size=1730,
    licence="Apache 2.0",
    hub=("MMMU/MMMU_Pro",),
    files=("vision/test-*.parquet",),
    tsv="MMMU_Pro_V",
    columns=("id", "image", "options", "answer"),
    key=_key,
    example=_seen,
    free="choice",
)
