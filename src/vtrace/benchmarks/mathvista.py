"""MathVista, testmini: mathematics in charts, diagrams and photographs."""

from __future__ import annotations

from ..types import Example, Gold
from .multiple_choice import choice_gold, with_options
from .public_benchmark import PublicBenchmark
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow

_FORM = {
    "integer": "Give the answer as a whole number.",
    "float": "Give the answer with {decimals} decimal {places}.",
    "list": "Give the answer as a list in square brackets.",
}


def _example(row: DatasetRow) -> Example:
    image = decode_picture(row["decoded_image"])  # `image` is only a path
    options = tuple(row["choices"] or ())
    asked = row["question"] + (f" (unit: {row['unit']})" if row["unit"] else "")
    answer = str(row["answer"]).strip()
    if options and (gold := choice_gold(options, answer)):  # the answer is the text of an option
        return Example((image,), with_options(asked, options), answer=answer, gold=gold)
    decimals = None if row["precision"] is None else int(row["precision"])  # a float in the file
    if row["answer_type"] == "text":
        return Example((image,), asked, answer=answer, gold=Gold("phrase", (answer,)))
    form = _FORM.get(row["answer_type"], "").format(decimals=decimals, places="place" if decimals == 1 else "places")
    places = decimals if row["answer_type"] in ("float", "list") else None
    return Example((image,), f"{asked}\n{form}".strip(), answer=answer, gold=Gold("maths", (answer,), decimals=places))


MATHVISTA = PublicBenchmark(
    name="mathvista",
    title="MathVista (testmini)",
    size=1000,
    licence="CC BY-SA 4.0",
    hub=("AI4Math/MathVista",),
    files=("data/testmini-*.parquet",),
    tsv="MathVista_MINI",
    columns=("pid", "question", "decoded_image", "choices", "unit", "precision", "answer", "answer_type"),
    key=lambda row: str(row["pid"]),
    example=_example,
    free="maths",
)
