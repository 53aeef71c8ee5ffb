"""Weights of responses as JSONL, one object per line, or as Parquet. The file appears when it is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..system.files import write_atomically
from .parquet_rows import require_pyarrow, write_parquet
from .weight_rows import WeightRow

if TYPE_CHECKING:
    import pyarrow


def check_weight_file(path: Path) -> None:
    """Refuse, before any work, a name that does not select a format."""
    if path.suffix not in _WRITERS:
        raise InputError(f"cannot write {path.name}: the name has to end in {' or '.join(_WRITERS)}")
    if path.suffix == ".parquet":
        require_pyarrow()


def write_weights(path: Path, rows: Iterable[WeightRow]) -> Path:
    """Write rows while they are made. If that fails, no file is left behind."""
    check_weight_file(path)
    return write_atomically(path, lambda file: _WRITERS[path.suffix](file, rows))


def _write_jsonl(path: Path, rows: Iterable[WeightRow]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parquet(path: Path, rows: Iterable[WeightRow]) -> None:
    write_parquet(path, _schema(), rows)


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    text, number, whole = pa.string(), pa.float64(), pa.int64()
    texts = dict.fromkeys(("key", "model", "source", "rule"), text)
    numbers = {"probed": pa.bool_(), "share": number, "boost": number, "seed": whole, "status": text}
    ids = dict.fromkeys(("prompt_ids", "response_ids"), pa.list_(whole))
    values = {"tokens": pa.list_(text), "weights": pa.list_(number), "scores": pa.list_(number)}
    return pa.schema({**texts, **numbers, **ids, **values, "image_share": number})


_WRITERS: dict[str, Callable[[Path, Iterable[WeightRow]], None]] = {".jsonl": _write_jsonl, ".parquet": _write_parquet}
