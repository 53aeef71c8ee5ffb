"""A user's own questions: a CSV or JSONL file, or a folder with one of them, or pictures with texts beside them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from ..errors import InputError, first_line
from ..types import Example, Gold
from .benchmark import Benchmark
from .choices import choice, literal_list, with_options
from .published import BLUR
from .quantity import read_quantity
from .readers.pictures import picture
from .readers.rows import Row, check_columns, unique

TABLES = (".csv", ".jsonl")
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def is_own(name: str) -> bool:
    """Whether a name is that of a file or folder of questions."""
    return Path(name).suffix in TABLES or Path(name).is_dir()


def open_own(place: Path) -> Benchmark:
    """Questions with their pictures, which are named relative to the file they stand in."""
    if not place.exists():
        raise InputError(f"there is no file or folder {place}")
    table = _table(place) if place.is_dir() else place
    rows = list(_pairs(place) if table is None else _lines(table))
    if not rows:
        raise InputError(f"{table or place} has no questions")
    folder = place if table is None else table.parent
    keys = unique(str(row.get("id") or "") for row in rows)

    def example(number: int) -> Example:
        return replace(own_example(rows[number], folder), key=keys[number])

    return Benchmark(place.stem, len(rows), keys.__getitem__, example, BLUR)


def _table(folder: Path) -> Path | None:
    tables = sorted(path for path in folder.iterdir() if path.suffix in TABLES)
    if len(tables) > 1:
        raise InputError(f"{folder} has several tables ({tables[0].name}, {tables[1].name}); give one of them")
    return tables[0] if tables else None


def _pairs(folder: Path) -> Iterator[Row]:
    """Pictures and texts of the same name; the text is the question."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURES and (text := path.with_suffix(".txt")).is_file():
            yield {"id": path.stem, "image": path.name, "question": text.read_text("utf-8")}


def _lines(table: Path) -> Iterator[Row]:
    read: Callable[[Path], Iterator[Row]] = _csv if table.suffix == ".csv" else _jsonl
    try:
        for row in read(table):
            wanted = ("images" if "images" in row else "image", "question")
            check_columns(table.name, row, wanted, "a table of questions")
            yield row
    except UnicodeDecodeError as error:
        raise InputError(f"{table} is not written in UTF-8: {first_line(error)}") from error


def _csv(table: Path) -> Iterator[Row]:
    with table.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def _jsonl(table: Path) -> Iterator[Row]:
    for number, line in enumerate(table.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"line {number} of {table} is not JSON: {first_line(error)}") from error
        if not isinstance(row, dict):
            raise InputError(f"line {number} of {table} is no object; write {{'image': …, 'question': …}}")
        yield row


def own_example(row: Row, folder: Path) -> Example:
    """Columns: image or images, question; and if they are known, answer, options (or A, B, C, …) and response."""
    images = tuple(picture(cell, folder) for cell in _several(row.get("images") or row.get("image"), ";"))
    if not images:
        raise InputError("there is no picture")
    options = _several(row.get("options"), "|") or tuple(str(row[k]) for k in ascii_uppercase if row.get(k))
    answer = None if row.get("answer") in (None, "") else str(row["answer"]).strip()
    question = with_options(str(row["question"] or ""), options)
    gold = None if answer is None else choice(options, answer) if options else own_gold(answer)
    if answer is not None and gold is None:
        raise InputError(f"the answer {answer!r} is neither the letter nor the text of an option")
    return Example(images, question, answer=answer, gold=gold, response=row.get("response") or None)


def _several(cell: Any, separator: str) -> tuple[str, ...]:
    """A list, the text of one, or texts with a separator between them."""
    if isinstance(cell, str) and not cell.startswith("["):
        return tuple(part.strip() for part in cell.split(separator) if part.strip())
    return literal_list(cell)


def own_gold(answer: str) -> Gold:
    """Numbers are compared as numbers, yes and no as such, everything else word for word."""
    if answer.lower() in ("yes", "no"):
        return Gold("yesno", (answer,))
    return Gold("maths" if read_quantity(answer) else "words", (answer,))
