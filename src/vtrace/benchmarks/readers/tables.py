"""Rows of a user's CSV or JSONL file, and in place of damaged rows what is wrong with them."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import InputError, first_line
from ...system.json_reader import check_characters, parse_json, read_bytes
from .rows import DatasetRow

TABLE_SUFFIXES = (".csv", ".jsonl")
ReadRow = DatasetRow | InputError


def read_table(path: Path) -> list[ReadRow]:
    """All rows of a file in order. A row that cannot be read never hides the others."""
    return list(_csv_rows(path) if path.suffix == ".csv" else _json_rows(path))


def json_lines(path: Path) -> Iterator[tuple[int, object]]:
    """Number and value of every line that is not blank; an `InputError` in place of a value that cannot be read.

    Lines end in a line feed only: other line separators of Unicode are part of a text.
    """
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if line.strip():
            try:
                yield number, parse_json(line, f"line {number} of {path} is not JSON")
            except InputError as error:
                yield number, error


def _json_rows(path: Path) -> Iterator[ReadRow]:
    for number, value in json_lines(path):
        if isinstance(value, dict | InputError):
            yield value
        else:
            yield InputError(f"line {number} of {path} is not an object; write {{'image': …, 'question': …}}")


def _csv_rows(path: Path) -> Iterator[ReadRow]:
    text = read_bytes(path).decode("utf-8-sig", "surrogateescape")
    with large_cells():
        reader = csv.reader(io.StringIO(text, newline=""))
        names: list[str] | None = None
        try:
            for cells in reader:
                if names is None:
                    names = cells
                elif cells:
                    yield _csv_row(names, cells, f"line {reader.line_num} of {path}")
        except csv.Error as error:
            yield InputError(f"line {reader.line_num} of {path} is not CSV: {first_line(error)}")


def _csv_row(names: list[str], cells: list[str], where: str) -> ReadRow:
    if len(cells) > len(names):
        return InputError(f"{where} has {len(cells)} cells, but there are only {len(names)} columns")
    try:
        for cell in (*names, *cells):
            check_characters(cell)
    except ValueError:
        return InputError(f"{where} is not UTF-8")
    return dict(zip(names, [*cells, *[""] * (len(names) - len(cells))], strict=True))


@contextmanager
def large_cells() -> Iterator[None]:
    """The csv module refuses cells as large as a picture unless its global limit is raised."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
