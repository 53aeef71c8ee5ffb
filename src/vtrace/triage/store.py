"""Explanations on disk: one SQLite file with a row each, and viewer files beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from ..benchmarks.benchmark import LostFile
from ..errors import InputError
from ..faithfulness.database import Database, connect_read_only, insert_row, read_settings, readable
from ..faithfulness.rows import LeftOutRow
from ..system.files import write_atomically
from .item import FOLDER
from .plan import ExplanationSettings
from .rows import ExplainedItem, ExplanationRow

EXPLANATIONS_VERSION = 1
FILE = "explanations.sqlite"
_SCHEMA = """
CREATE TABLE explanation (key TEXT PRIMARY KEY, number INTEGER NOT NULL, facts TEXT NOT NULL);
CREATE TABLE left_out (item TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE lost (file TEXT PRIMARY KEY, reason TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Explanations:
    """Everything that a folder holds, in the order of the benchmark."""

    settings: ExplanationSettings
    rows: list[ExplanationRow]
    left_out: list[LeftOutRow]
    unverified: list[LeftOutRow]  # explained, but could not be verified later
    lost: list[LostFile]


class ExplanationStore:
    """The explanations in a folder. Only one process may write to it at a time."""

    def __init__(self, folder: Path, settings: ExplanationSettings):
        """Open a folder, or create it. One that was made with other settings is refused."""
        self.folder = folder
        self._database = Database(folder / FILE, _SCHEMA, EXPLANATIONS_VERSION, settings)

    def is_done(self, key: str, verified: bool) -> bool:
        """Whether an item is explained, its viewer file exists, and it is verified if that is wanted."""
        found = self._database.fetch("SELECT facts FROM explanation WHERE key = ?", (key,))
        row: ExplanationRow | None = json.loads(found[0][0]) if found else None
        if row is None or not os.path.exists(self.folder / row["page"]):
            return False
        return row["verification"] is not None or not verified

    def save(self, found: ExplainedItem | LeftOutRow) -> None:
        """Write an explanation with its file, or the reason why an item has none. The row comes last: a file without
        one is written again."""
        if isinstance(found, ExplainedItem):
            (self.folder / FOLDER).mkdir(exist_ok=True)
            text = found.page
            write_atomically(self.folder / found.row["page"], lambda file: file.write_text(text, "utf-8"))
        with self._database.transaction() as connection:
            if not isinstance(found, ExplainedItem):
                insert_row(connection, "left_out", found)
                return
            key, number = found.row["key"], found.row["number"]
            insert_row(connection, "explanation", {"key": key, "number": number, "facts": json.dumps(found.row)})
            connection.execute("DELETE FROM left_out WHERE item = ?", (key,))

    def save_lost(self, files: Sequence[LostFile]) -> None:
        """Record the files of the benchmark that currently cannot be read, and why."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM lost")
            for file, reason in files:
                insert_row(connection, "lost", {"file": file, "reason": reason})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()


def read_explanations(folder: Path) -> Explanations:
    """What has been explained so far."""
    path = folder / FILE
    if not os.path.exists(path):
        raise InputError(f"there are no explanations in {folder}; create some with: vtrace explain --benchmark NAME")
    with readable(path), closing(connect_read_only(path)) as connection:
        connection.execute("BEGIN")  # one snapshot: a run may still be in progress
        settings = cast(ExplanationSettings, read_settings(connection, path, EXPLANATIONS_VERSION))
        facts = connection.execute("SELECT facts FROM explanation ORDER BY number").fetchall()
        failed = connection.execute(
            "SELECT item, reason, item IN (SELECT key FROM explanation) FROM left_out ORDER BY rowid"
        ).fetchall()
        lost = connection.execute("SELECT file, reason FROM lost").fetchall()
    return Explanations(
        settings,
        [json.loads(text) for (text,) in facts],
        [LeftOutRow(item=item, reason=reason) for item, reason, explained in failed if not explained],
        [LeftOutRow(item=item, reason=reason) for item, reason, explained in failed if explained],
        [LostFile(*row) for row in lost],
    )
