"""Parquet files as the hub stores datasets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import InputError, first_line
from ..benchmark import LostFile
from .rows import DatasetRow, DatasetRows, check_columns

if TYPE_CHECKING:
    import pyarrow


class _Place(NamedTuple):
    """Where a row is stored."""

    path: Path
    group: int
    row: int  # in its group


def read_parquet(paths: Sequence[Path], wanted: Sequence[str], title: str) -> DatasetRows:
    """All rows of the files, in order. One row group of pictures is in memory at a time."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError("benchmarks in Parquet need pyarrow; install it with: pip install pyarrow") from error
    texts: list[DatasetRow] = []
    places: list[_Place] = []
    lost: list[LostFile] = []
    for path in paths:
        try:
            with ParquetFile(path) as file:
                names = file.schema_arrow.names
                light = [n for n in names if not _is_picture(file.schema_arrow.field(n).type)]
                groups = [file.read_row_group(k, columns=light).to_pylist() for k in range(file.num_row_groups)]
        except (pyarrow.ArrowException, OSError) as error:
            lost.append(LostFile(path.name, f"the file is truncated or damaged ({_reason(error)}); download it again"))
            continue
        check_columns(path.name, names, wanted, title)
        for number, group in enumerate(groups):
            texts += group
            places += [_Place(path, number, row) for row in range(len(group))]
    if lost and not texts:
        raise InputError(f"{lost[0].name}: {lost[0].reason}")

    @lru_cache(maxsize=1)
    def group_of(path: Path, number: int) -> pyarrow.Table:
        with ParquetFile(path) as file:
            return file.read_row_group(number)

    def whole(index: int) -> DatasetRow:
        path, number, row = places[index]
        try:
            return group_of(path, number).slice(row, 1).to_pylist()[0]
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path.name} is damaged ({_reason(error)}); download it again") from error

    return DatasetRows(texts, whole, tuple(lost))


def _is_picture(kind: pyarrow.DataType) -> bool:
    """Bytes, or a struct with bytes in it."""
    text = str(kind)
    return text in ("binary", "large_binary") or text.startswith("struct<bytes: ")


def _reason(error: BaseException) -> str:
    return first_line(error).partition(". Either")[0][:120]
