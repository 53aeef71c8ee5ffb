"""RealWorldQA: photographs, many of them from cars."""

from __future__ import annotations

from ..types import Example, Gold
from .multiple_choice import choice_gold, inline_options, without_curt_request
from .public_benchmark import PublicBenchmark
from .quantity import read_quantity
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow


def _example(row: DatasetRow) -> Example:
    question, answer = without_curt_request(row["question"]), row["answer"].strip()
    gold = choice_gold(inline_options(question), answer) if len(answer) == 1 and answer.isalpha() else None
    if gold is None:
        gold = Gold("maths" if read_quantity(answer) else "words", (answer,))
    return Example((decode_picture(row["image"]),), question, answer=answer, gold=gold)


REALWORLDQA = PublicBenchmark(
    name="realworldqa",
    title="RealWorldQA",
    size=765,
    licence="CC BY-ND 4.0",
    hub=("lmms-lab/RealWorldQA", "lmms-lab-encoder/RealWorldQA", "xai-org/RealworldQA"),
    files=("data/test-*.parquet",),
    tsv="RealWorldQA",
    columns=("image", "question", "answer"),
    key=lambda row: str(row.get("image_path") or ""),
    example=_example,
)
