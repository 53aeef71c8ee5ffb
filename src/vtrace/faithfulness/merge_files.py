"""Merge files of one run, and of its frozen responses, into one folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from .database import check_settings, connect_read_only, read_settings, readable
from .rows import LeftOutRow, ResponseRow, TraceRows, TraceSettings
from .store import RunStore, merge_runs, read_run, run_file, run_files
from .traces import TRACE_FILES, TRACE_VERSION, TraceStore, trace_file


def merge_files(places: Sequence[Path], out: Path) -> list[Path]:
    """Merge runs into `out`, and return the files that were written. Earlier places count first, and what `out`
    already has before them. Nothing is deleted."""
    places = [*([out] if run_files(out) else []), *places]
    run = merge_runs({place: read_run(place) for place in places})
    with RunStore(run_file(out), run.settings) as store:
        store.save(run.rows)
    responses = [path for place in places if os.path.isdir(place) for path in sorted(place.glob(TRACE_FILES))]
    return [store.path, *([_merge_responses(responses, out)] if responses else [])]


def _merge_responses(paths: Sequence[Path], out: Path) -> Path:
    """A response that several files have is that of the first. Answered items are not left out."""
    parts = [_read_responses(path) for path in paths]
    settings = parts[0].settings
    for path, part in zip(paths, parts, strict=True):
        check_settings(path, part.settings, settings)
    responses = {row["key"]: row for part in reversed(parts) for row in part.rows.response}
    left_out = {row["item"]: row for part in reversed(parts) for row in part.rows.left_out}
    kept = [row for key, row in left_out.items() if key not in responses]
    with TraceStore(trace_file(out), settings) as store:
        store.save(TraceRows(list(responses.values()), kept))
    return store.path


class _Responses(NamedTuple):
    """What one file holds."""

    settings: TraceSettings
    rows: TraceRows


def _read_responses(path: Path) -> _Responses:
    with readable(path), closing(connect_read_only(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        settings = cast(TraceSettings, read_settings(connection, path, TRACE_VERSION))
        responses = [cast(ResponseRow, dict(row)) for row in connection.execute("SELECT * FROM response")]
        left_out = [cast(LeftOutRow, dict(row)) for row in connection.execute("SELECT * FROM left_out")]
    return _Responses(settings, TraceRows(responses, left_out))
