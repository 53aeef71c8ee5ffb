"""The history: one SQLite file. A result is written in one transaction, before any client learns of it."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from ..errors import InputError, VTraceError
from ..system.files import locked
from .disk_reserve import DiskReserve
from .experiment_table import EXPERIMENT_TABLE, ExperimentTable
from .job import EndedStatus, JobRequest, JobStatus
from .stored_results import StoredMatrix, StoredMethod, StoredResults

HISTORY_VERSION = 4
_WITHOUT_EXPERIMENTS = 3  # the version before, which only lacks a table
HISTORY_BYTES = 2 * 10**9  # the default limit of a history
STOPPED = "the server was stopped"
_PAGES_AT_ONCE = 256  # given back in one step, so that little extra space is needed
_TABLES = f"""
CREATE TABLE explanation (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, created REAL NOT NULL, seconds REAL,
  model TEXT NOT NULL, methods TEXT NOT NULL, target TEXT NOT NULL, question TEXT NOT NULL, response TEXT, answer TEXT,
  error TEXT, thumbnail BLOB NOT NULL, trace BLOB);
CREATE TABLE picture (
  explanation TEXT NOT NULL REFERENCES explanation (id) ON DELETE CASCADE, place INTEGER NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY (explanation, place));
CREATE TABLE matrix (
  explanation TEXT NOT NULL REFERENCES explanation (id) ON DELETE CASCADE, place INTEGER NOT NULL,
  facts TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (explanation, place));
CREATE TABLE result (
  explanation TEXT NOT NULL REFERENCES explanation (id) ON DELETE CASCADE, place INTEGER NOT NULL,
  method TEXT NOT NULL, document BLOB NOT NULL, matrix INTEGER, PRIMARY KEY (explanation, place));
{EXPERIMENT_TABLE}"""


class DiskFull(VTraceError):
    """There is no space for a result."""


class HistoryRecord(BaseModel, frozen=True):
    """The record of one explanation."""

    id: str
    number: int = Field(description="Increases with every request; use it as `before` in the history.")
    status: JobStatus
    created: float = Field(description="Seconds since 1970.")
    seconds: float | None = Field(description="Seconds of work.")
    model: str
    methods: list[str]
    target: str
    question: str
    response: str | None
    answer: str | None
    error: str | None
    experiments: int = Field(description="Number of finished experiments.")


_COUNTED = "(SELECT COUNT(*) FROM experiment WHERE explanation = explanation.id AND result IS NOT NULL) AS experiments"
_FACTS = ", ".join(_COUNTED if name == "experiments" else name for name in HistoryRecord.model_fields)


class History:
    """Explanations on disk. Only one server uses the file at a time; its threads take turns."""

    def __init__(self, path: Path, most_bytes: int = HISTORY_BYTES):
        """Open a history, or create one. Work that a killed server left unfinished is marked as interrupted.

        Beyond `most_bytes`, the oldest explanations are deleted; the newest always stays.
        """
        self.path, self.most_bytes = path, most_bytes
        self._turn = threading.Lock()
        self._lock = locked(path, "--store", private=True)
        try:
            self._db = self._open()
        except sqlite3.Error as error:
            self._lock.close()
            raise InputError(f"{path} is not a usable history ({error}); choose another --store") from error
        except InputError:
            self._lock.close()
            raise
        self._reserve = DiskReserve(path)
        self.experiments = ExperimentTable(self)

    def _open(self) -> sqlite3.Connection:
        self.path.touch(mode=0o600)  # pictures and questions are private
        db = sqlite3.connect(self.path, check_same_thread=False)
        try:
            self._prepare(db)
        except (sqlite3.Error, InputError):
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before anything is written
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = FAST")  # whole pages are given back instead, see `_give_back`
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0 and not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {HISTORY_VERSION}; COMMIT;")
        elif found == _WITHOUT_EXPERIMENTS:
            db.executescript(f"BEGIN; {EXPERIMENT_TABLE} PRAGMA user_version = {HISTORY_VERSION}; COMMIT;")
        elif found != HISTORY_VERSION:
            age = "an older" if 0 < found < HISTORY_VERSION else "another"
            raise InputError(f"{self.path} was made by {age} version of VTrace; move it away or choose another --store")
        db.execute("PRAGMA journal_mode = WAL")  # not before it is known to be ours
        with db:
            for table in ("explanation", "experiment"):
                db.execute(
                    f"UPDATE {table} SET status = 'interrupted', error = ? WHERE status IN ('waiting', 'running')",
                    (STOPPED,),
                )
        _give_back(db)  # what a server that was killed while it deleted something had no time for

    def add(self, request: JobRequest, thumbnail: bytes) -> None:
        """Add a request that has been accepted into the queue."""
        methods = json.dumps(list(request.methods))
        question = request.example.question
        self.write(
            "INSERT INTO explanation (id, status, created, model, methods, target, question, thumbnail) "
            "VALUES (?, 'waiting', ?, ?, ?, ?, ?, ?)",
            (request.id, time.time(), request.model, methods, request.target, question, thumbnail),
        )

    def begin(self, id: str) -> None:
        self.write("UPDATE explanation SET status = 'running' WHERE id = ?", (id,))

    def finish(self, id: str, results: StoredResults, response: str, answer: str | None, seconds: float) -> None:
        """Save results and the new status in one transaction."""
        with self._turn:
            try:
                with self._db:
                    self._insert(id, results)
                    self._db.execute(
                        "UPDATE explanation SET status = 'done', response = ?, answer = ?, seconds = ?, trace = ? "
                        "WHERE id = ?",
                        (response, answer, seconds, results.trace, id),
                    )
            except sqlite3.OperationalError as error:
                if not is_disk_full(error):
                    raise
                with suppress(sqlite3.Error):
                    _empty_log(self._db)  # which the failed transaction has filled
                raise DiskFull("the disk is full; free some space or delete explanations, then ask again") from error
            self._trim()
            self._reserve.fill()

    def _insert(self, id: str, results: StoredResults) -> None:
        add = self._db.executemany
        add("INSERT INTO picture VALUES (?, ?, ?)", ((id, n, data) for n, data in enumerate(results.pictures)))
        add("INSERT INTO matrix VALUES (?, ?, ?, ?)", ((id, n, *one) for n, one in enumerate(results.matrices)))
        add("INSERT INTO result VALUES (?, ?, ?, ?, ?)", ((id, n, *one) for n, one in enumerate(results.methods)))

    def end(self, id: str, status: EndedStatus, error: str, response: str, seconds: float | None = None) -> None:
        """Record why there is no result, also if the disk is full. A finished explanation stays finished."""
        self.write_in_any_case(
            "UPDATE explanation SET status = ?, error = ?, response = ?, seconds = ? WHERE id = ? AND status != 'done'",
            (status, error, response or None, seconds, id),
        )

    def find(self, id: str) -> HistoryRecord | None:
        rows = self.read(f"SELECT {_FACTS} FROM explanation WHERE id = ?", (id,))
        return _record(rows[0]) if rows else None

    def page(self, before: int | None, count: int) -> list[HistoryRecord]:
        """Newest first; only those with a smaller number than `before`."""
        rows = self.read(
            f"SELECT {_FACTS} FROM explanation WHERE ?1 IS NULL OR number < ?1 ORDER BY number DESC LIMIT ?2",
            (before, count),
        )
        return list(map(_record, rows))

    def thumbnail(self, id: str) -> bytes | None:
        rows = self.read("SELECT thumbnail FROM explanation WHERE id = ?", (id,))
        return rows[0][0] if rows else None

    def results(self, id: str) -> StoredResults | None:
        """What was stored, in the order in which methods were requested."""
        with self._turn:  # one consistent state
            found = self._db.execute("SELECT trace FROM explanation WHERE id = ?", (id,)).fetchone()
            methods = self._parts("SELECT method, document, matrix FROM result", id)
            matrices = self._parts("SELECT facts, data FROM matrix", id)
            pictures = self._parts("SELECT data FROM picture", id)
        if found is None or found["trace"] is None:
            return None
        return StoredResults(
            found["trace"],
            [StoredMethod(*row) for row in methods],
            [StoredMatrix(*row) for row in matrices],
            [row["data"] for row in pictures],
        )

    def _parts(self, query: str, id: str) -> list[sqlite3.Row]:
        return self._db.execute(f"{query} WHERE explanation = ? ORDER BY place", (id,)).fetchall()

    def delete(self, id: str) -> None:
        """Remove an explanation for good: the file becomes smaller, and nothing of it stays readable in it."""
        self.write_in_any_case("DELETE FROM explanation WHERE id = ?", (id,))
        with self._turn:
            try:
                _give_back(self._db)
            except sqlite3.OperationalError:  # there is still no space: the rest follows when there is
                self._reserve.release()
                with suppress(sqlite3.OperationalError):
                    _give_back(self._db)
            self._reserve.fill()

    def _trim(self) -> None:
        """Delete the oldest explanations until the history fits into its limit."""
        while _used_bytes(self._db) > self.most_bytes:
            ended = self._db.execute(
                "SELECT id FROM explanation WHERE status NOT IN ('waiting', 'running') "
                "AND number < (SELECT MAX(number) FROM explanation WHERE trace IS NOT NULL) ORDER BY number LIMIT 1"
            ).fetchone()
            if ended is None:
                return
            with self._db:
                self._db.execute("DELETE FROM explanation WHERE id = ?", (ended["id"],))
            _give_back(self._db)

    def close(self) -> None:
        with self._turn:
            self._db.close()
            self._lock.close()

    def write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._turn, self._db:
            self._db.execute(statement, values)

    def write_in_any_case(self, statement: str, values: tuple[Any, ...]) -> None:
        """A small write that also works on a full disk: then the space that was set aside is used."""
        try:
            self.write(statement, values)
        except sqlite3.OperationalError as error:
            if not is_disk_full(error):
                raise
            self._reserve.release()
            self.write(statement, values)
            self._reserve.fill()

    def read(self, statement: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        with self._turn:
            return self._db.execute(statement, values).fetchall()


def is_disk_full(error: BaseException) -> bool:
    """Whether an error of SQLite or the system says that there is no space left."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _used_bytes(db: sqlite3.Connection) -> int:
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _give_back(db: sqlite3.Connection) -> None:
    """Return free pages to the system and empty the write-ahead log, in small steps that need little space.

    Afterwards the file has no free pages that could still be read, and the log has nothing at all.
    """
    _empty_log(db)
    while db.execute("PRAGMA freelist_count").fetchone()[0]:
        db.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
        _empty_log(db)


def _empty_log(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _record(row: sqlite3.Row) -> HistoryRecord:
    return HistoryRecord(**{**dict(row), "methods": json.loads(row["methods"])})
