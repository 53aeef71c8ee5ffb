"""Parquet files as the hub stores datasets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import InputError, first_line
from .rows import Row, Rows, check_columns


def read_parquet(paths: Sequence[Path], wanted: Sequence[str], title: str) -> Rows:
    """All rows of the files, in order. One row group of pictures is in memory at a time."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError("benchmarks in Parquet need pyarrow; install it with: pip install pyarrow") from error
    texts: list[Row] = []
    places: list[tuple[Path, int, int]] = []  # file, row group, row in it
    lost = []
    for path in paths:
        try:
            with ParquetFile(path) as file:
                names = file.schema_arrow.names
                light = [n for n in names if not _is_picture(file.schema_arrow.field(n).type)]
                groups = [file.read_row_group(k, columns=light).to_pylist() for k in range(file.num_row_groups)]
        except (pyarrow.ArrowException, OSError) as error:
            lost.append((path.name, f"the file is cut off or damaged ({_reason(error)}); download it again"))
            continue
        check_columns(path.name, names, wanted, title)
        for number, group in enumerate(groups):
            texts += group
            places += [(path, number, row) for row in range(len(group))]
    if lost and not texts:
        raise InputError(f"{lost[0][0]}: {lost[0][1]}")

    @lru_cache(maxsize=1)
    def group_of(path: Path, number: int) -> Any:
        with ParquetFile(path) as file:
            return file.read_row_group(number)

    def whole(index: int) -> Row:
        path, number, row = places[index]
        try:
            return group_of(path, number).slice(row, 1).to_pylist()[0]
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path.name} is damaged ({_reason(error)}); download it again") from error

    return Rows(texts, whole, tuple(lost))


def _is_picture(kind: Any) -> bool:
    """Bytes, or a struct with bytes in it."""
    text = str(kind)
    return text in ("binary", "large_binary") or text.startswith("struct<bytes: ")


def _reason(error: BaseException) -> str:
    return first_line(error).partition(". Either")[0][:120]
