"""One SQLite file per run: an item is written whole, in one transaction, or not at all."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self, cast, get_args

from ..benchmarks.benchmark import LostFile
from ..errors import InputError
from ..types import Finish
from .database import Database, check_settings, connect_read_only, insert_row, read_settings, readable
from .merge import merge_rows
from .rows import RunRows, RunSettings, TableName, TargetAndMethod

RUN_VERSION = 4  # since 4, integrated gradients choose their number of steps
RUN_FILES = "run*.sqlite"
_SCHEMA = """
CREATE TABLE item (
  key TEXT PRIMARY KEY, number INTEGER NOT NULL, asked TEXT NOT NULL, question TEXT, response TEXT, answer TEXT,
  gold TEXT, verdict TEXT, correct INTEGER, tokens INTEGER, image_tokens INTEGER, finish TEXT, reply TEXT NOT NULL,
  clean REAL, image_perturbed REAL, joint_perturbed REAL);
CREATE TABLE result (
  item TEXT NOT NULL, target TEXT NOT NULL, method TEXT NOT NULL, options TEXT, image_share REAL, seconds REAL,
  own_seconds REAL, memory INTEGER, passes INTEGER, PRIMARY KEY (item, target, method));
CREATE TABLE curve (
  item TEXT NOT NULL, target TEXT NOT NULL, method TEXT NOT NULL, setting TEXT NOT NULL, mode TEXT NOT NULL, rise REAL,
  mas REAL, degenerate INTEGER, unranked INTEGER, response TEXT, mass TEXT,
  PRIMARY KEY (item, target, method, setting, mode));
CREATE TABLE evidence (
  item TEXT NOT NULL, target TEXT NOT NULL, method TEXT NOT NULL, kind TEXT NOT NULL, metric TEXT NOT NULL, value REAL,
  PRIMARY KEY (item, target, method, kind, metric));
CREATE TABLE failure (
  item TEXT NOT NULL, target TEXT NOT NULL, method TEXT NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (item, target, method));
CREATE TABLE left_out (item TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE lost (file TEXT PRIMARY KEY, reason TEXT NOT NULL);
"""
_ADDED = {"result": ("passes", "INTEGER")}  # columns that files of this version may lack
RUN_TABLES: tuple[TableName, ...] = get_args(TableName)
OF_ITEM = dict.fromkeys(RUN_TABLES, "item") | {"item": "key", "lost": "NULL"}  # the column that names the item


@dataclass(frozen=True)
class FrozenResponse:
    """A response that is not generated again."""

    asked: str  # fingerprint of the example
    ids: list[int]
    finish: Finish


@dataclass(frozen=True)
class Shard:
    """A part of the examples: every `count`-th, beginning with number `number`, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def check(self) -> None:
        if not 1 <= self.number <= self.count:
            raise InputError(f"shard {self} does not exist; count from 1/{self.count} to {self.count}/{self.count}")


WHOLE_RUN = Shard(1, 1)


def run_file(folder: Path, shard: Shard = WHOLE_RUN) -> Path:
    """The file that one shard writes. All files of a folder are read together, whatever their shards."""
    return folder / ("run.sqlite" if shard.count == 1 else f"run-{shard.number}-of-{shard.count}.sqlite")


class RunStore:
    """A run on disk. Only one process may write to a file at a time. What other files of the folder hold counts too:
    the run may have been cut into other shards before."""

    def __init__(self, path: Path, settings: RunSettings):
        """Open a run, or create one. A run that was made with other settings is refused."""
        self.path = path
        self._database = Database(path, _SCHEMA, RUN_VERSION, settings, _ADDED)
        try:
            self._elsewhere = _measured_elsewhere(path, settings)
        except BaseException:
            self.close()
            raise

    def frozen(self, key: str) -> FrozenResponse | None:
        """The response that an earlier session froze."""
        rows = self._database.fetch("SELECT asked, reply, finish FROM item WHERE key = ?", (key,))
        found = next((FrozenResponse(asked, json.loads(reply), finish) for asked, reply, finish in rows), None)
        return found or self._elsewhere.responses.get(key)

    def done(self, key: str) -> set[TargetAndMethod]:
        """Targets and methods that have been measured. Failures are tried again."""
        rows = self._database.fetch("SELECT target, method FROM result WHERE item = ?", (key,))
        return {TargetAndMethod(*row) for row in rows} | self._elsewhere.pairs.get(key, set())

    def save(self, rows: RunRows) -> None:
        """Write everything or nothing. Rows that succeed now no longer count as failed or left out."""
        with self._database.transaction() as connection:
            for table, found in vars(rows).items():
                for row in found:
                    insert_row(connection, table, row)
            for item in rows.item:
                connection.execute("DELETE FROM left_out WHERE item = ?", (item["key"],))
            for result in rows.result:
                connection.execute(
                    "DELETE FROM failure WHERE item = ? AND target = ? AND method = ?",
                    (result["item"], result["target"], result["method"]),
                )

    def save_lost(self, files: Sequence[LostFile]) -> None:
        """Record the files of the benchmark that currently cannot be read, and why."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM lost")
            for file, reason in files:
                insert_row(connection, "lost", {"file": file, "reason": reason})

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Elsewhere(NamedTuple):
    """What other files of a run hold, by item."""

    responses: dict[str, FrozenResponse]
    pairs: dict[str, set[TargetAndMethod]]


def _measured_elsewhere(path: Path, settings: RunSettings) -> _Elsewhere:
    found = _Elsewhere({}, defaultdict(set))
    others = {place: _read_file(place, ("item", "result"), None) for place in run_files(path.parent) if place != path}
    for place, other in others.items():
        check_settings(place, other.settings, settings)
    rows = merge_rows([other.rows for other in others.values()])
    for item in rows.item:
        found.responses[item["key"]] = FrozenResponse(item["asked"], json.loads(item["reply"]), item["finish"])
    for result in rows.result:
        found.pairs[result["item"]].add(TargetAndMethod(result["target"], result["method"]))
    return found


@dataclass(frozen=True)
class Run:
    """A finished or unfinished run, read from one file or from all shards in a folder."""

    settings: RunSettings
    rows: RunRows


def run_files(folder: Path) -> list[Path]:
    """The files of a run, in the order in which they count."""
    return sorted(folder.glob(RUN_FILES)) if os.path.isdir(folder) else []


def read_run(place: Path, tables: Sequence[TableName] = RUN_TABLES, item: str | None = None) -> Run:
    """Read a run file, or all of them in a folder, which must have the same settings.

    `tables` and `item` read less: only some tables, only the rows of one item.
    """
    paths = run_files(place) if os.path.isdir(place) else [place]
    if not paths or not os.path.exists(paths[0]):
        raise InputError(f"there is no run at {place}; create one with: vtrace evaluate --out {place}")
    return merge_runs({path: _read_file(path, tables, item) for path in paths})


def merge_runs(runs: Mapping[Path, Run]) -> Run:
    """Several files or copies of one run as one; earlier ones count first."""
    first, settings = next((place, run.settings) for place, run in runs.items())
    for place, run in runs.items():
        if run.settings != settings:
            raise InputError(f"{place} belongs to a different run than {first}; move it elsewhere")
    return Run(settings, merge_rows([run.rows for run in runs.values()]))


def _read_file(path: Path, tables: Sequence[TableName], item: str | None) -> Run:
    with readable(path), closing(connect_read_only(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")  # one consistent snapshot of all tables: the run may still be in progress
        settings = cast(RunSettings, read_settings(connection, path, RUN_VERSION))
        rows = RunRows()
        for table in tables:
            of_item = f"WHERE {OF_ITEM[table]} = :item" if item is not None else ""
            found = connection.execute(f"SELECT * FROM {table} {of_item}", {"item": item})
            getattr(rows, table).extend(map(dict, found))
    return Run(settings, rows)


def read_reasons(path: Path, table: Literal["left_out", "failure"]) -> dict[str, int]:
    """How often each reason occurs in a table."""
    with readable(path), closing(connect_read_only(path)) as connection:
        return dict(connection.execute(f"SELECT reason, COUNT(*) FROM {table} GROUP BY reason ORDER BY MIN(rowid)"))
