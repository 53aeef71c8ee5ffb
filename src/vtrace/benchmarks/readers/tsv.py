"""TSV files as VLMEvalKit stores datasets: one row per item, pictures in base64, options in columns A, B, C, …"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import BinaryIO, NamedTuple

from ...errors import InputError, first_line
from ...types import AnswerKind, Example, Gold
from ..benchmark import LostFile
from ..multiple_choice import (
    YES_OR_NO,
    choice_gold,
    inline_options,
    literal_list,
    with_options,
    without_bare_letters,
    without_curt_request,
    yes_or_no,
)
from ..quantity import read_quantity
from .pictures import decode_picture, from_base64
from .rows import DatasetRow, DatasetRows, check_columns
from .tables import large_cells

_COLUMNS = ("index", "image", "question", "answer")
_SHORTEST_PICTURE = 64  # characters; a shorter cell is the index of another row, whose picture this row shares


class _Bytes(NamedTuple):
    """Where a row is in the file."""

    start: int
    stop: int


def read_tsv(path: Path, title: str) -> DatasetRows:
    """Texts of all rows; a whole row is read again from its place in the file.

    The csv module parses the rows; the only addition is to remember where each row starts.
    """
    texts: list[DatasetRow] = []
    places: list[_Bytes] = []
    by_index: dict[str, int] = {}
    lost: list[LostFile] = []
    with path.open("rb") as file, large_cells():
        lines = _Lines(file)
        reader = csv.reader(lines, delimiter="\t")
        try:
            names = next(reader, [])
            check_columns(path.name, names, _COLUMNS, f"{title} of VLMEvalKit")
            start = lines.read
            for cells in reader:
                if len(cells) != len(names):
                    raise csv.Error(f"line {reader.line_num} has {len(cells)} cells instead of {len(names)}")
                row = dict(zip(names, cells, strict=True))
                by_index[row["index"]] = len(texts)
                texts.append({name: cell for name, cell in row.items() if name != "image"})
                places.append(_Bytes(start, lines.read))
                start = lines.read
        except (csv.Error, UnicodeDecodeError) as error:
            if not texts:
                raise InputError(f"{path.name} is not a VLMEvalKit table: {first_line(error)}") from error
            reason = f"the rest of the file is truncated or damaged ({first_line(error)}); download it again"
            lost.append(LostFile(path.name, reason))

    def whole(number: int) -> DatasetRow:
        start, stop = places[number]
        with path.open("rb") as file, large_cells():
            file.seek(start)
            text = io.StringIO(file.read(stop - start).decode("utf-8"), newline="")
            return dict(zip(names, next(csv.reader(text, delimiter="\t")), strict=True))

    def with_pictures(number: int) -> DatasetRow:
        row = whole(number)
        return row | {"image": _pictures(row["image"], lambda index: whole(by_index[index])["image"])}

    return DatasetRows(texts, with_pictures, tuple(lost))


class _Lines:
    """Lines of a file as text, and how many bytes of it have been read."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.read = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.read += len(line)
            yield line.decode("utf-8-sig" if self.read == len(line) else "utf-8")


def _pictures(cell: str, of_row: Callable[[str], str]) -> list[bytes]:
    if cell.startswith("["):
        return [from_base64(text) for text in literal_list(cell)]
    for _ in range(2):  # a row may refer to the picture of another row
        if not cell:
            return []
        if len(cell) > _SHORTEST_PICTURE:
            break
        try:
            cell = of_row(cell)
        except KeyError as error:
            raise InputError(f"the picture should be that of row {cell!r}, which does not exist") from error
    return [from_base64(cell)]


def tsv_example(row: DatasetRow, free: AnswerKind) -> Example:
    """An item of any benchmark in VLMEvalKit's columns; `free` is the answer kind of questions without options."""
    images = tuple(decode_picture(data) for data in row["image"])
    if not images:
        raise InputError("there is no picture")
    question, answer = without_curt_request(row["question"]), row["answer"].strip()
    listed = row.get("choices") or row.get("options") or ""
    options = tuple(row[letter] for letter in ascii_uppercase if row.get(letter)) or (
        literal_list(listed) if listed.startswith("[") else inline_options(question)
    )
    options = without_bare_letters(options)
    if question and inline_options(question) != options:
        question = with_options(question, options)
    lettered = options or row.get("question_type", "").startswith("multi")
    gold = choice_gold(options, answer) if lettered else None
    if gold is None and free == "yesno":
        question, answer = f"{question} {YES_OR_NO}", yes_or_no(answer)
    if gold is None:
        precision = read_quantity(row.get("precision") or "")
        gold = Gold(free, (answer,), decimals=None if precision is None else int(precision.value))
    return Example(images, question or "Answer the question in the picture.", answer=answer, gold=gold)
