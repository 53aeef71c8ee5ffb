"""A user's own questions: a CSV or JSONL file, a folder with one, or pictures with text files of the same name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from PIL import Image

from ..errors import InputError
from ..system.json_reader import parse_json, read_text
from ..tracing.pictures import BLUR
from ..types import Box, Example, Gold
from .benchmark import Benchmark
from .multiple_choice import choice_gold, literal_list, with_options
from .quantity import read_quantity
from .readers.pictures import decode_picture
from .readers.rows import DatasetRow, check_columns, read_row, unique_keys
from .readers.tables import TABLE_SUFFIXES, ReadRow, read_table

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def is_own_file(name: str) -> bool:
    """Whether this names a file or folder of questions rather than a benchmark."""
    return Path(name).suffix in TABLE_SUFFIXES or os.path.isdir(name)


def open_user_questions(place: Path) -> Benchmark:
    """Questions with their pictures, whose paths are relative to the file.

    Loading the example of a damaged row fails, and only that; a table with nothing but damaged rows is refused.
    """
    if not os.path.exists(place):
        raise InputError(f"there is no file or folder {place}")
    table = _table(place) if os.path.isdir(place) else place
    if table and not os.path.isfile(table):  # which may have no end, and cannot be read again to resume a run
        raise InputError(f"{table} is not a regular file; save the questions as a CSV or JSONL file")
    rows = _pairs(place) if table is None else [_checked(row, table.name) for row in read_table(table)]
    if not rows:
        raise InputError(f"{table or place} has no questions")
    damaged = [row for row in rows if isinstance(row, InputError)]
    if len(damaged) == len(rows):
        raise damaged[0]
    folder = place if table is None else table.parent
    keys = unique_keys("" if isinstance(row, InputError) else str(row.get("id") or "") for row in rows)

    def example(number: int) -> Example:
        row = rows[number]
        if isinstance(row, InputError):
            raise row
        return replace(read_row(lambda: own_example(row, folder)), key=keys[number])

    return Benchmark(place.stem, len(rows), keys.__getitem__, example, BLUR)


def _table(folder: Path) -> Path | None:
    tables = sorted(path for path in folder.iterdir() if path.suffix in TABLE_SUFFIXES)
    if len(tables) > 1:
        raise InputError(f"{folder} has several tables ({tables[0].name}, {tables[1].name}); give one of them")
    return tables[0] if tables else None


def _pairs(folder: Path) -> list[ReadRow]:
    """Pictures with text files of the same name that contain the question."""
    rows: list[ReadRow] = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURE_SUFFIXES and (text := path.with_suffix(".txt")).is_file():
            try:
                rows.append({"id": path.stem, "image": path.name, "question": read_text(text)})
            except InputError as error:
                rows.append(error)
    return rows


def _checked(row: ReadRow, table: str) -> ReadRow:
    """A row that has the columns of a question, or what it lacks."""
    try:
        if not isinstance(row, InputError):
            check_columns(table, row, ("images" if "images" in row else "image", "question"), "a table of questions")
        return row
    except InputError as error:
        return error


def own_example(row: DatasetRow, folder: Path) -> Example:
    """Columns: image or images, question; optionally answer, options (or A, B, C, …), box or boxes, response and
    response_ids."""
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
        evidence_boxes=_boxes(row.get("boxes") or row.get("box"), images),
        response=_response(row.get("response")),
        response_ids=_token_ids(row.get("response_ids")),
    )


def _boxes(cell: object, images: Sequence[Image.Image]) -> tuple[Box, ...]:
    """A box as left, top, right and bottom in pixels, several of them, or the text of either."""
    if cell in (None, "", []):
        return ()
    if len(images) > 1:
        raise InputError("a box was given, but there are several pictures; boxes need a row with one picture")
    problem = "box is not a list of left, top, right and bottom, or of several such lists"
    found = parse_json(f"[{cell}]", problem) if isinstance(cell, str) else cell
    while isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    several = found if isinstance(found, list) and found and isinstance(found[0], list) else [found]
    return tuple(_box(one, images[0].size, problem) for one in several)


def _box(values: object, size: tuple[int, int], problem: str) -> Box:
    if not isinstance(values, list) or len(values) != 4 or not all(type(v) in (int, float) for v in values):
        raise InputError(problem)
    box = Box(*map(float, values))
    if not (box.left < box.right and box.top < box.bottom):
        raise InputError(
            f"the box {values} is empty; write left, top, right, bottom with left < right and top < bottom"
        )
    if box.left >= size[0] or box.top >= size[1] or box.right <= 0 or box.bottom <= 0:
        raise InputError(f"the box {values} lies outside the picture, which has {size[0]} x {size[1]} pixels")
    return box


def _response(cell: object) -> str | None:
    if not isinstance(cell, str | None):
        raise InputError(f"the response is {str(cell)[:40]!r}; it must be a text")
    return cell or None


def _token_ids(cell: str | Iterable[object] | None) -> tuple[int, ...]:
    """A list of token numbers, or the text of one; none if there is no such column."""
    problem = "response_ids is not a list of token numbers"
    found = parse_json(cell, problem) if isinstance(cell, str) and cell else cell or ()
    if not isinstance(found, list | tuple) or not all(type(token) is int for token in found):
        raise InputError(problem)
    return tuple(found)


def _several(cell: str | Iterable[object] | None, separator: str) -> tuple[str, ...]:
    """A list, the text of one, or texts joined by a separator."""
    if not isinstance(cell, str | list | tuple | None):
        raise InputError(f"{str(cell)[:40]!r} is neither a text nor a list of texts")
    if isinstance(cell, str) and not cell.startswith("["):
        return tuple(part.strip() for part in cell.split(separator) if part.strip())
    return literal_list(cell)


def own_gold(answer: str) -> Gold:
    """Numbers are compared as numbers, yes and no as yes and no, everything else word for word."""
    if answer.lower() in ("yes", "no"):
        return Gold("yesno", (answer,))
    return Gold("maths" if read_quantity(answer) else "words", (answer,))
