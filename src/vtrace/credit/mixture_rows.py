"""Rows of the paper's two training datasets: their columns, and which of them a reward can be given for.

Columns and sizes are those that public programs read from the datasets (docs/how-to/credit-data.md lists them); the
files themselves were not seen here. So a column may have one of several names, and a file without it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..benchmarks.readers.pictures import decode_picture
from ..errors import InputError, first_line
from ..tracing.pictures import ThinPictureError
from .gold import infer_gold
from .parquet_rows import require_pyarrow
from .training_rows import IMAGE_MARKER, TrainingItem, mark_pictures

if TYPE_CHECKING:
    import pyarrow

MixtureSource = Literal["mmr1-rl", "revisual-r1"]
LeftOut = Literal[
    "no picture",
    "no question",
    "no answer",
    "unreadable picture",
    "picture too narrow",  # Qwen's processors refuse it
    "not one <image> marker per picture",
    "special token, or marker of a video or sound",  # a trainer would look for the video
    "answer needs a judge",
    "unreadable row",
]
COLUMN_NAMES = {  # what a column may be called; the first name is the one that was seen
    "pictures": ("images", "image"),
    "question": ("problem", "question"),
    "answer": ("answer", "ground_truth"),
}
_ORIGIN = ("dataset", "source")  # where a row came from; ReVisual-R1 has it for some rows
_FOREIGN = re.compile(r"<(?:video|audio)>|<\|[^|<>\s]*\|>")
_ROWS_IN_MEMORY = 64


class UnusableRow(Exception):
    """A row that is left out."""

    def __init__(self, reason: LeftOut):
        super().__init__(reason)
        self.reason = reason


class DamagedFile(Exception):
    """A file that cannot be read, or not to its end."""


class MixtureColumns(NamedTuple):
    """The columns of a file, by what they hold."""

    pictures: str
    question: str
    answer: str
    origin: str | None


class StoredRow(NamedTuple):
    """A row of a file; its cells are not converted yet."""

    number: int
    total: int  # rows of the file
    columns: MixtureColumns
    cells: pyarrow.RecordBatch


def find_columns(file: str, present: Sequence[str]) -> MixtureColumns:
    """The columns of a file, under any of the names they may have."""
    found = []
    for what, names in COLUMN_NAMES.items():
        known = [name for name in names if name in present]
        if not known:
            raise InputError(
                f"{file} has no column with the {what} ({' or '.join(names)}); it has: {', '.join(present)}"
            )
        found.append(known[0])
    pictures, question, answer = found
    return MixtureColumns(pictures, question, answer, next((name for name in _ORIGIN if name in present), None))


def check_file(path: Path) -> None:
    """Refuse a file without the columns."""
    with _opened(path) as file:
        find_columns(path.name, file.schema_arrow.names)


def stored_rows(path: Path) -> Iterator[StoredRow]:
    """The rows of a file, a few in memory at a time."""
    with _opened(path) as file:
        columns = find_columns(path.name, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(_ROWS_IN_MEMORY, columns=[name for name in columns if name]):
            for place in range(batch.num_rows):
                yield StoredRow(number, file.metadata.num_rows, columns, batch.slice(place, 1))
                number += 1


@contextmanager
def _opened(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    require_pyarrow()
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise DamagedFile(first_line(error)) from error


def training_item(
    row: StoredRow, source: MixtureSource, key: str, folder: Path, keep_formulas: bool = False
) -> TrainingItem:
    """The question, pictures and answer of a row, whose paths start in `folder`; or `UnusableRow` with the reason."""
    try:
        return _item(row, source, key, folder, keep_formulas)
    except UnusableRow:
        raise
    except Exception as error:  # cells can contain anything, also text that is not UTF-8
        raise UnusableRow("unreadable row") from error


def _item(row: StoredRow, source: MixtureSource, key: str, folder: Path, keep_formulas: bool) -> TrainingItem:
    cells, names = row.cells.to_pylist()[0], row.columns
    pictures, question, answer = cells[names.pictures], cells[names.question], cells[names.answer]
    pictures = pictures if isinstance(pictures, list) else [pictures]
    if not any(pictures):
        raise UnusableRow("no picture")
    if not question or not question.replace(IMAGE_MARKER, "").strip():
        raise UnusableRow("no question")
    answer = "" if answer is None else str(answer).strip()
    if not answer:
        raise UnusableRow("no answer")
    if _FOREIGN.search(question):
        raise UnusableRow("special token, or marker of a video or sound")
    question = mark_pictures(question, len(pictures))
    if question.count(IMAGE_MARKER) != len(pictures):
        raise UnusableRow("not one <image> marker per picture")
    gold = infer_gold(question, answer, keep_formulas)
    if gold is None:
        raise UnusableRow("answer needs a judge")
    images = tuple(_encoded(picture, folder) for picture in pictures)
    origin = cells[names.origin] if names.origin else None
    return TrainingItem(key, f"{source}/{origin}" if origin else source, question, images, answer, gold)


def _encoded(cell: object, folder: Path) -> bytes:
    """The encoded picture of a cell, after decoding it once to see that it can be."""
    content = (cell.get("bytes") or cell.get("path")) if isinstance(cell, Mapping) else cell
    try:
        data = content if isinstance(content, bytes) else _picture_file(folder / str(content))
        decode_picture(data)
    except (InputError, OSError, ValueError) as error:
        raise UnusableRow(
            "picture too narrow" if isinstance(error, ThinPictureError) else "unreadable picture"
        ) from error
    return data


def _picture_file(path: Path) -> bytes:
    if not path.is_file():  # a device may have no end
        raise InputError(f"there is no picture at {path}")
    return path.read_bytes()
