"""Rows in a Parquet file, written while they are made. Parquet needs pyarrow, which is optional."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    import pyarrow

_ROWS_PER_GROUP = 64  # rows can have pictures or thousands of tokens


def require_pyarrow() -> None:
    """Fail before any work if there is no pyarrow."""
    if find_spec("pyarrow") is None:
        raise InputError("Parquet files need pyarrow; install it with: pip install pyarrow")


def write_parquet(path: Path, schema: pyarrow.Schema, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as they come; a group of them is in memory at a time."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    group: list[Mapping[str, Any]] = []
    with ParquetWriter(path, schema) as writer:
        for row in rows:
            group.append(row)
            if len(group) == _ROWS_PER_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                group.clear()
        if group:
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
