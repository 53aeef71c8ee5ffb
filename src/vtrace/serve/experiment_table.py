"""Experiments in the history. They are deleted together with the explanation that they belong to."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from typing import Any, Protocol

from pydantic import BaseModel, Field

from ..system.json_reader import parse_json
from .experiment import ExperimentJob, ExperimentRequest
from .job import EndedStatus, JobStatus

EXPERIMENT_TABLE = """
CREATE TABLE experiment (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  explanation TEXT NOT NULL REFERENCES explanation (id) ON DELETE CASCADE, status TEXT NOT NULL, created REAL NOT NULL,
  seconds REAL, request TEXT NOT NULL, text TEXT, result BLOB, error TEXT);
CREATE INDEX experiment_of ON experiment (explanation);
"""
_COLUMNS = "id, status, created, seconds, request, text, result, error"


class Experiment(BaseModel, frozen=True):
    """One experiment: its progress and its result."""

    id: str
    status: JobStatus
    created: float = Field(description="Seconds since 1970.")
    seconds: float | None = Field(description="Seconds of work.")
    request: ExperimentRequest
    text: str | None = Field(description="The new response.")
    result: dict[str, Any] | None
    error: str | None


class HistoryFile(Protocol):
    """The file, whose users take turns."""

    def write(self, statement: str, values: tuple[Any, ...]) -> None: ...

    def write_in_any_case(self, statement: str, values: tuple[Any, ...]) -> None: ...

    def read(self, statement: str, values: tuple[Any, ...]) -> list[sqlite3.Row]: ...


class ExperimentTable:
    """All experiments of a history."""

    def __init__(self, history: HistoryFile):
        self._history = history

    def add(self, job: ExperimentJob) -> None:
        """Add an experiment that has been accepted into the queue."""
        self._history.write(
            "INSERT INTO experiment (id, explanation, status, created, request) VALUES (?, ?, 'waiting', ?, ?)",
            (job.id, job.explanation, time.time(), job.request.model_dump_json()),
        )

    def begin(self, id: str) -> None:
        self._history.write("UPDATE experiment SET status = 'running' WHERE id = ?", (id,))

    def finish(self, id: str, result: dict[str, Any], text: str, seconds: float) -> None:
        packed = zlib.compress(json.dumps(result, ensure_ascii=False).encode())
        self._history.write(
            "UPDATE experiment SET status = 'done', result = ?, text = ?, seconds = ? WHERE id = ?",
            (packed, text or None, seconds, id),
        )

    def end(self, id: str, status: EndedStatus, error: str, text: str, seconds: float | None = None) -> None:
        """Record why there is no result. A finished experiment stays finished."""
        self._history.write_in_any_case(
            "UPDATE experiment SET status = ?, error = ?, text = ?, seconds = ? WHERE id = ? AND status != 'done'",
            (status, error, text or None, seconds, id),
        )

    def of(self, explanation: str) -> list[Experiment]:
        """Those of one explanation, oldest first."""
        rows = self._history.read(
            f"SELECT {_COLUMNS} FROM experiment WHERE explanation = ? ORDER BY number", (explanation,)
        )
        return list(map(_experiment, rows))

    def count(self, explanation: str) -> int:
        """How many there are on one explanation, however they ended: each takes space."""
        return self._history.read("SELECT COUNT(*) FROM experiment WHERE explanation = ?", (explanation,))[0][0]

    def find(self, explanation: str, id: str) -> Experiment | None:
        rows = self._history.read(
            f"SELECT {_COLUMNS} FROM experiment WHERE explanation = ? AND id = ?", (explanation, id)
        )
        return _experiment(rows[0]) if rows else None


def _experiment(row: sqlite3.Row) -> Experiment:
    packed = row["result"]
    result = None if packed is None else parse_json(zlib.decompress(packed), "the history is damaged")
    return Experiment(**{**dict(row), "request": json.loads(row["request"]), "result": result})
