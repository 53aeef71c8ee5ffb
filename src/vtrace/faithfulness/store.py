"""One SQLite file per run: an item is written whole, in one transaction, or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..system.files import locked
from ..types import Finish

VERSION = 3
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE item (
  key TEXT PRIMARY KEY, number INTEGER NOT NULL, asked TEXT NOT NULL, question TEXT, response TEXT, answer TEXT,
  gold TEXT, verdict TEXT, correct INTEGER, tokens INTEGER, image_tokens INTEGER, finish TEXT, reply TEXT NOT NULL,
  clean REAL, image_perturbed REAL, joint_perturbed REAL);
CREATE TABLE result (
  item TEXT NOT NULL, target TEXT NOT NULL, method TEXT NOT NULL, options TEXT, image_share REAL, seconds REAL,
  own_seconds REAL, memory INTEGER, PRIMARY KEY (item, target, method));
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
TABLES = ("item", "result", "curve", "evidence", "failure", "left_out", "lost")
OF_ITEM = dict.fromkeys(TABLES, "item") | {"item": "key", "lost": "NULL"}  # the column that names the item


Row = dict[str, Any]


@dataclass
class Rows:
    """What one item adds to a run, table by table: what was measured, or why the item was left out."""

    item: Row | None = None
    result: list[Row] = field(default_factory=list)
    curve: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    failure: list[Row] = field(default_factory=list)  # of one method
    left_out: Row | None = None


@dataclass(frozen=True)
class Frozen:
    """A response that is not asked for again."""

    asked: str  # fingerprint of what it was given to
    reply: list[int]  # tokens
    finish: Finish


def run_file(folder: Path, number: int = 1, count: int = 1) -> Path:
    """The file of one shard. A folder whose run was cut in another way is refused: items would be in two files."""
    name = "run.sqlite" if count == 1 else f"run-{number}-of-{count}.sqlite"
    ending = name.removeprefix(f"run-{number}")  # of all files that belong together
    if others := [p.name for p in sorted(folder.glob("run*.sqlite")) if not p.name.endswith(ending)]:
        raise InputError(f"{folder} holds {others[0]}, cut into other shards than {name}; choose another --out")
    return folder / name


class Store:
    """A run on disk. Only one process may write to it at a time."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        """Open a run, or begin one. A run that was made with other settings is refused."""
        self.path = path
        self._lock = locked(path)
        try:
            with _readable(path):
                self._db = sqlite3.connect(path)
        except BaseException:
            self._lock.close()
            raise
        try:
            self._open(settings)
        except BaseException:
            self.close()
            raise

    def _open(self, settings: dict[str, Any]) -> None:
        with _readable(self.path):
            self._db.execute("PRAGMA journal_mode = WAL")
            if not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                with self._db:
                    self._db.executescript(f"BEGIN; {_TABLES}")  # a run that is killed here has not begun
                    self._db.execute("INSERT INTO meta VALUES ('version', ?)", (str(VERSION),))
                    self._db.execute("INSERT INTO meta VALUES ('settings', ?)", (json.dumps(settings),))
            before = read_settings(self._db, self.path)
        for key, value in settings.items():
            if before.get(key) != json.loads(json.dumps(value)):
                raise InputError(
                    f"{self.path} was made with {key} {before.get(key)!r}, not {value!r}; choose another --out"
                )

    def frozen(self, key: str) -> Frozen | None:
        """What an earlier session froze."""
        with _readable(self.path):
            row = self._db.execute("SELECT asked, reply, finish FROM item WHERE key = ?", (key,)).fetchone()
        return None if row is None else Frozen(row[0], json.loads(row[1]), row[2])

    def done(self, key: str) -> set[tuple[str, str]]:
        """Targets and methods that are measured already. What failed is tried again."""
        with _readable(self.path):
            return set(self._db.execute("SELECT target, method FROM result WHERE item = ?", (key,)))

    def save(self, rows: Rows) -> None:
        """All or nothing."""
        with _readable(self.path), self._db:
            for table, found in vars(rows).items():
                for row in [found] if isinstance(found, dict) else found or []:
                    self._insert(table, row)
            if rows.item:  # it works now
                self._db.execute("DELETE FROM left_out WHERE item = ?", (rows.item["key"],))
            for row in rows.result:
                self._db.execute(
                    "DELETE FROM failure WHERE item = ? AND target = ? AND method = ?",
                    (row["item"], row["target"], row["method"]),
                )

    def note_lost(self, files: Sequence[tuple[str, str]]) -> None:
        """Files of the benchmark that cannot be read today, and why."""
        with _readable(self.path), self._db:
            self._db.execute("DELETE FROM lost")
            for file, reason in files:
                self._insert("lost", {"file": file, "reason": reason})

    def _insert(self, table: str, row: Row) -> None:
        marks = ", ".join("?" * len(row))
        self._db.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    def close(self) -> None:
        self._db.close()
        self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_settings(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    found = dict(db.execute("SELECT key, value FROM meta"))
    if found.get("version") != str(VERSION):
        raise InputError(
            f"{path} has version {found.get('version')} of a run, and this program reads version {VERSION}; "
            "run again with another --out"
        )
    return json.loads(found["settings"])


@dataclass(frozen=True)
class Run:
    """A finished or unfinished run, read from one file or from all shards in a folder."""

    settings: dict[str, Any]
    rows: dict[str, list[Row]]  # by table


def read_run(place: Path, tables: Sequence[str] = TABLES, item: str | None = None) -> Run:
    """Read a run file, or all of them in a folder; shards have to agree in their settings.

    `tables` and `item` read less: only some tables, only what was found for one item.
    """
    paths = sorted(place.glob("*.sqlite")) if place.is_dir() else [place]
    if not paths or not paths[0].exists():
        raise InputError(f"there is no run at {place}; make one with: vtrace evaluate --out {place}")
    settings: dict[str, Any] | None = None
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for path in paths:
        with _readable(path), closing(_connect(path)) as db:
            db.row_factory = sqlite3.Row
            db.execute("BEGIN")  # all tables as they are at one moment: the run may be going on
            own = read_settings(db, path)
            for table in tables:
                of_item = f"WHERE {OF_ITEM[table]} = :item" if item is not None else ""
                rows[table] += map(dict, db.execute(f"SELECT * FROM {table} {of_item}", {"item": item}))
        if settings is not None and own != settings:
            raise InputError(f"{path} belongs to another run than the files beside it; move it elsewhere")
        settings = own
    assert settings is not None
    if twice := [key for key, count in Counter(row["key"] for row in rows["item"]).items() if count > 1]:
        raise InputError(f"{place} has {twice[0]} in two of its files, as if cut into shards twice; move one elsewhere")
    numbers = {row["key"]: row["number"] for row in rows["item"]}
    rows["item"].sort(key=lambda row: row["number"])
    for table in ("result", "curve", "evidence", "failure"):
        rows[table].sort(key=lambda row: numbers.get(row["item"], -1))
    return Run(settings, rows)


def read_reasons(path: Path, table: str) -> dict[str, int]:
    """How many rows of "left_out" or "failure" a run has, by reason."""
    with _readable(path), closing(_connect(path)) as db:
        return dict(db.execute(f"SELECT reason, COUNT(*) FROM {table} GROUP BY reason ORDER BY MIN(rowid)"))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors of the database as something a user can act on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise InputError(
                f"the disk is full; {path} keeps all finished items, free some room and run again"
            ) from error
        raise InputError(f"cannot use {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path} is damaged ({error}); move it away and run again") from error
