"""The history: one SQLite file. A result is written in one transaction, before any client learns of it."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from ..errors import InputError
from ..system.files import locked
from .job import EndedStatus, JobRequest, JobStatus

HISTORY_VERSION = 2
STOPPED = "the server was stopped"
_TABLES = """
CREATE TABLE explanation (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, created REAL NOT NULL, seconds REAL,
  model TEXT NOT NULL, methods TEXT NOT NULL, target TEXT NOT NULL, question TEXT NOT NULL, response TEXT, answer TEXT,
  error TEXT, thumbnail BLOB NOT NULL);
CREATE TABLE result (
  explanation TEXT NOT NULL REFERENCES explanation (id) ON DELETE CASCADE, place INTEGER NOT NULL,
  method TEXT NOT NULL, document BLOB NOT NULL, PRIMARY KEY (explanation, place));
"""


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


_FACTS = ", ".join(HistoryRecord.model_fields)


class MethodDocument(NamedTuple):
    """The attribution of one method, as JSON."""

    method: str
    document: dict[str, Any]


class History:
    """Explanations on disk. Only one server uses the file at a time; its threads take turns."""

    def __init__(self, path: Path):
        """Open a history, or create one. Work that a killed server left unfinished is marked as interrupted."""
        self.path = path
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
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA foreign_keys = ON")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0 and not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {HISTORY_VERSION}; COMMIT;")
        elif found != HISTORY_VERSION:
            age = "an older" if 0 < found < HISTORY_VERSION else "another"
            raise InputError(f"{self.path} was made by {age} version of VTrace; move it away or choose another --store")
        with db:
            db.execute(
                "UPDATE explanation SET status = 'interrupted', error = ? WHERE status IN ('waiting', 'running')",
                (STOPPED,),
            )

    def add(self, request: JobRequest, thumbnail: bytes) -> None:
        """Add a request that has been accepted into the queue."""
        methods = json.dumps(list(request.methods))
        question = request.example.question
        self._write(
            "INSERT INTO explanation (id, status, created, model, methods, target, question, thumbnail) "
            "VALUES (?, 'waiting', ?, ?, ?, ?, ?, ?)",
            (request.id, time.time(), request.model, methods, request.target, question, thumbnail),
        )

    def begin(self, id: str) -> None:
        self._write("UPDATE explanation SET status = 'running' WHERE id = ?", (id,))

    def finish(
        self, id: str, results: Sequence[MethodDocument], response: str, answer: str | None, seconds: float
    ) -> None:
        """Save results and the new status in one transaction."""
        packed = [
            (id, place, method, zlib.compress(json.dumps(document, ensure_ascii=False).encode(), 1))
            for place, (method, document) in enumerate(results)
        ]
        with self._turn, self._db:
            self._db.executemany("INSERT INTO result VALUES (?, ?, ?, ?)", packed)
            self._db.execute(
                "UPDATE explanation SET status = 'done', response = ?, answer = ?, seconds = ? WHERE id = ?",
                (response, answer, seconds, id),
            )

    def end(self, id: str, status: EndedStatus, error: str, response: str, seconds: float | None = None) -> None:
        """Record why there is no result. A finished explanation stays finished."""
        self._write(
            "UPDATE explanation SET status = ?, error = ?, response = ?, seconds = ? WHERE id = ? AND status != 'done'",
            (status, error, response or None, seconds, id),
        )

    def find(self, id: str) -> HistoryRecord | None:
        rows = self._read(f"SELECT {_FACTS} FROM explanation WHERE id = ?", (id,))
        return _record(rows[0]) if rows else None

    def page(self, before: int | None, count: int) -> list[HistoryRecord]:
        """Newest first; only those with a smaller number than `before`."""
        rows = self._read(
            f"SELECT {_FACTS} FROM explanation WHERE ?1 IS NULL OR number < ?1 ORDER BY number DESC LIMIT ?2",
            (before, count),
        )
        return list(map(_record, rows))

    def thumbnail(self, id: str) -> bytes | None:
        rows = self._read("SELECT thumbnail FROM explanation WHERE id = ?", (id,))
        return rows[0][0] if rows else None

    def documents(self, id: str) -> dict[str, bytes]:
        """Attributions as JSON, by method, in the order in which they were requested."""
        rows = self._read("SELECT method, document FROM result WHERE explanation = ? ORDER BY place", (id,))
        return {row["method"]: zlib.decompress(row["document"]) for row in rows}

    def delete(self, id: str) -> None:
        self._write("DELETE FROM explanation WHERE id = ?", (id,))

    def close(self) -> None:
        with self._turn:
            self._db.close()
            self._lock.close()

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._turn, self._db:
            self._db.execute(statement, values)

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        with self._turn:
            return self._db.execute(statement, values).fetchall()


def _record(row: sqlite3.Row) -> HistoryRecord:
    return HistoryRecord(**{**dict(row), "methods": json.loads(row["methods"])})
