"""A user's own questions: a CSV or JSONL file, a folder with one, or pictures with text files of the same name."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from ..errors import InputError, first_line
from ..tracing.pictures import BLUR
from ..types import Example, Gold
from .benchmark import Benchmark
from .multiple_choice import choice_gold, literal_list, with_options
from .quantity import read_quantity
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow, check_columns, unique_keys

TABLE_SUFFIXES = (".csv", ".jsonl")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def is_own_file(name: str) -> bool:
    """Whether this names a file or folder of questions rather than a benchmark."""
    return Path(name).suffix in TABLE_SUFFIXES or Path(name).is_dir()


def open_user_questions(place: Path, strict: bool = True) -> Benchmark:
    """Questions with their pictures, whose paths are relative to the file.

    Args:
        place: the file or folder.
        strict: refuse a table with a damaged row. Else loading the example of that row fails, and only that.
    """
    if not place.exists():
        raise InputError(f"there is no file or folder {place}")
    table = _table(place) if place.is_dir() else place
    rows = list(_pairs(place) if table is None else _lines(table))
    if not rows:
        raise InputError(f"{table or place} has no questions")
    if strict and (damaged := next((row for row in rows if isinstance(row, InputError)), None)):
        raise damaged
    folder = place if table is None else table.parent
    keys = unique_keys("" if isinstance(row, InputError) else str(row.get("id") or "") for row in rows)

    def example(number: int) -> Example:
        row = rows[number]
        if isinstance(row, InputError):
            raise row
        return replace(own_example(row, folder), key=keys[number])

    return Benchmark(place.stem, len(rows), keys.__getitem__, example, BLUR)


def _table(folder: Path) -> Path | None:
    tables = sorted(path for path in folder.iterdir() if path.suffix in TABLE_SUFFIXES)
    if len(tables) > 1:
        raise InputError(f"{folder} has several tables ({tables[0].name}, {tables[1].name}); give one of them")
    return tables[0] if tables else None


def _pairs(folder: Path) -> Iterator[DatasetRow]:
    """Pictures with text files of the same name that contain the question."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURE_SUFFIXES and (text := path.with_suffix(".txt")).is_file():
            yield {"id": path.stem, "image": path.name, "question": text.read_text("utf-8")}


def _lines(table: Path) -> Iterator[DatasetRow | InputError]:
    """Rows, and in place of damaged ones what is wrong with them."""
    read: Callable[[Path], Iterator[DatasetRow | InputError]] = _csv if table.suffix == ".csv" else _jsonl
    try:
        for row in read(table):
            try:
                if isinstance(row, dict):
                    wanted = ("images" if "images" in row else "image", "question")
                    check_columns(table.name, row, wanted, "a table of questions")
                yield row
            except InputError as error:
                yield error
    except UnicodeDecodeError as error:
        raise InputError(f"{table} is not UTF-8: {first_line(error)}") from error


def _csv(table: Path) -> Iterator[DatasetRow]:
    with table.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def _jsonl(table: Path) -> Iterator[DatasetRow | InputError]:
    for number, line in enumerate(table.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            yield InputError(f"line {number} of {table} is not JSON: {first_line(error)}")
            continue
        if isinstance(row, dict):
            yield row
        else:
            yield InputError(f"line {number} of {table} is not an object; write {{'image': …, 'question': …}}")


def own_example(row: DatasetRow, folder: Path) -> Example:
    """Columns: image or images, question; optionally answer, options (or A, B, C, …), response and response_ids."""
    images = tuple(decode_picture(cell, folder) for cell in _several(row.get("images") or row.get("image"), ";"))
    if not images:
        raise InputError("there is no picture")
    options = _several(row.get("options"), "|") or tuple(str(row[k]) for k in ascii_uppercase if row.get(k))
    answer = None if row.get("answer") in (None, "") else str(row["answer"]).strip()
    question = with_options(str(row["question"] or ""), options)
    gold = None if answer is None else choice_gold(options, answer) if options else own_gold(answer)
    if answer is not None and gold is None:
        raise InputError(f"the answer {answer!r} is neither the letter nor the text of an option")
    return Example(
        images,
        question,
        answer=answer,
        gold=gold,
        response=row.get("response") or None,
        response_ids=_token_ids(row.get("response_ids")),
    )


def _token_ids(cell: str | Iterable[object] | None) -> tuple[int, ...]:
    """A list of token numbers, or the text of one; none if there is no such column."""
    try:
        ids = list((json.loads(cell) if isinstance(cell, str) and cell else cell) or ())
        if all(type(token) is int for token in ids):
            return tuple(ids)
    except (TypeError, ValueError):
        pass
    raise InputError("response_ids is not a list of token numbers")


def _several(cell: str | Iterable[object] | None, separator: str) -> tuple[str, ...]:
    """A list, the text of one, or texts joined by a separator."""
    if isinstance(cell, str) and not cell.startswith("["):
        return tuple(part.strip() for part in cell.split(separator) if part.strip())
    return literal_list(cell)


def own_gold(answer: str) -> Gold:
    """Numbers are compared as numbers, yes and no as yes and no, everything else word for word."""
    if answer.lower() in ("yes", "no"):
        return Gold("yesno", (answer,))
    return Gold("maths" if read_quantity(answer) else "words", (answer,))
