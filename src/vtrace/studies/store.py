"""One SQLite file per study: what was measured on each example, so that interrupted studies resume."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ..errors import InputError
from ..faithfulness.database import Database

STUDY_FILE = "study.sqlite"
STUDY_VERSION = 1
_SCHEMA = """
CREATE TABLE measurement (item TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE verdict (item TEXT PRIMARY KEY, correct INTEGER NOT NULL);
"""
_FORMER = ("points.jsonl", "verdicts.jsonl", "run.sqlite")  # file formats of studies before version 1


class StudyStore:
    """Measurements of one study, all made with the same settings. Only one process may write to it at a time."""

    def __init__(self, folder: Path, settings: Mapping[str, object]):
        if former := next((name for name in _FORMER if os.path.exists(folder / name)), None):
            raise InputError(f"{folder} has {former} of an older version; choose another --out, or remove the folder")
        self._database = Database(folder / STUDY_FILE, _SCHEMA, STUDY_VERSION, settings)

    def measurements(self) -> dict[str, Any]:
        """What was measured, as JSON values by key of the example."""
        return {item: json.loads(value) for item, value in self._database.fetch("SELECT item, value FROM measurement")}

    def save(self, item: str, found: object) -> None:
        """Save what was measured on an example: lists, tuples, and dataclasses of them."""
        with self._database.transaction() as connection:
            values = item, json.dumps(found, default=vars)
            connection.execute("INSERT OR REPLACE INTO measurement VALUES (?, ?)", values)

    def verdicts(self) -> dict[str, bool]:
        """Whether the model's answers were correct, for all examples that were asked to find this out."""
        return {item: bool(right) for item, right in self._database.fetch("SELECT item, correct FROM verdict")}

    def save_verdict(self, item: str, correct: bool) -> None:
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO verdict VALUES (?, ?)", (item, correct))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()
