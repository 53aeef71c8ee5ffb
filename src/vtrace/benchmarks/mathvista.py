"""MathVista, testmini: mathematics in charts, diagrams and photographs."""

from __future__ import annotations

from ..types import Example, Gold
from .choices import choice, with_options
from .published import Source
from .readers.pictures import picture
from .readers.rows import Row

_FORM = {
    "integer": "Give the answer as a whole number.",
    "float": "Give the answer with {decimals} decimal {places}.",
    "list": "Give the answer as a list in square brackets.",
}


def _example(row: Row) -> Example:
    image = picture(row["decoded_image"])  # `image` is only a path
    options = tuple(row["choices"] or ())
    asked = row["question"] + (f" (unit: {row['unit']})" if row["unit"] else "")
    answer = str(row["answer"]).strip()
    if options and (gold := choice(options, answer)):  # the answer is the text of an option
        return Example((image,), with_options(asked, options), answer=answer, gold=gold)
    decimals = None if row["precision"] is None else int(row["precision"])  # a float in the file
    if row["answer_type"] == "text":
        return Example((image,), asked, answer=answer, gold=Gold("phrase", (answer,)))
    form = _FORM.get(row["answer_type"], "").format(decimals=decimals, places="place" if decimals == 1 else "places")
    places = decimals if row["answer_type"] in ("float", "list") else None
    return Example((image,), f"{asked}\n{form}".strip(), answer=answer, gold=Gold("maths", (answer,), decimals=places))


MATHVISTA = Source(
    "mathvista", "MathVista (testmini)", 1000, "CC BY-SA 4.0", ("AI4Math/MathVista",), ("data/testmini-*.parquet",),
    "MathVista_MINI",
    ("pid", "question", "decoded_image", "choices", "unit", "precision", "answer", "answer_type"),
    lambda row: str(row["pid"]), _example, free="maths",
)  # fmt: skip
