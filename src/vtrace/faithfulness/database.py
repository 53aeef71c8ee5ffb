"""SQLite files of measurements: one writer, one set of settings, and errors that say what to do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from ..errors import InputError
from ..system.files import locked
from ..system.json_reader import parse_json

_PROGRAMS = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1"
_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);"

_OLDER = {"family": ""}  # settings that files of older versions do not have, and what theirs were


class Database:
    """A file that one process at a time may write to, and that accepts only one set of settings.

    Args:
        path: the file; it is created if it does not exist.
        schema: tables of a new file.
        version: of the schema; a file of another version is refused.
        settings: what everything in the file has in common.
        added: columns that were added to tables without a new version, by table: name and type.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        version: int,
        settings: Mapping[str, Any],
        added: Mapping[str, tuple[str, str]] | None = None,
    ):
        self.path = path
        self._lock = locked(path)
        try:
            with readable(path):
                self.connection = sqlite3.connect(path)
        except BaseException:
            self._lock.close()
            raise
        try:
            self._open(schema, version, settings)
            self._add_columns(added or {})
        except BaseException:
            self.close()
            raise

    def _open(self, schema: str, version: int, settings: Mapping[str, Any]) -> None:
        with readable(self.path):
            if not self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                with self.connection:  # if creation is interrupted, the file stays empty
                    self.connection.executescript(f"BEGIN; {_META} {schema}")
                    self.connection.execute("INSERT INTO meta VALUES ('version', ?)", (str(version),))
                    self.connection.execute("INSERT INTO meta VALUES ('settings', ?)", (json.dumps(settings),))
            _refuse_programs(self.connection, self.path)
            before = read_settings(self.connection, self.path, version)
            self.connection.execute("PRAGMA journal_mode = WAL")  # not before it is known to be ours
        check_settings(self.path, before, settings)

    def _add_columns(self, added: Mapping[str, tuple[str, str]]) -> None:
        for table, (column, kind) in added.items():
            known = [name for _, name, *_ in self.fetch(f"PRAGMA table_info({table})")]
            if column not in known:
                with self.transaction() as connection:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all or nothing."""
        with readable(self.path), self.connection:
            yield self.connection

    def fetch(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with readable(self.path):
            return self.connection.execute(query, values).fetchall()

    def close(self) -> None:
        self.connection.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_settings(connection: sqlite3.Connection, path: Path, version: int) -> dict[str, Any]:
    found = dict(connection.execute("SELECT key, value FROM meta"))
    if found.get("version") != str(version):
        raise InputError(
            f"{path} has format version {found.get('version')}, but this program reads version {version}; "
            "run again with another --out"
        )
    settings = parse_json(found.get("settings") or "", f"{path} has damaged settings")
    if not isinstance(settings, dict):
        raise InputError(f"{path} has damaged settings; move it away and run again")
    return {**_OLDER, **settings}


def check_settings(path: Path, before: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse to add to a file what was made with other settings."""
    for key, value in settings.items():
        if before.get(key) != json.loads(json.dumps(value)):
            raise InputError(f"{path} was made with {key} {before.get(key)!r}, not {value!r}; choose another --out")


def insert_row(connection: sqlite3.Connection, table: str, row: Mapping[str, object]) -> None:
    """Insert a row, or replace the one with the same key."""
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing. SQLite opens the file for writing where that is allowed: of those who close it
    last, only a connection that may write removes the files -wal and -shm."""
    if not path.is_file():  # to open a pipe would wait for ever
        raise InputError(f"{path} is not a regular file; move it away")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    try:
        connection.execute("PRAGMA query_only = ON")
        _refuse_programs(connection, path)
    except (InputError, sqlite3.Error):
        connection.close()
        raise
    return connection


def _refuse_programs(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what runs when a table is read or written: in a file of somebody else's it may never end."""
    if connection.execute(_PROGRAMS).fetchone():
        raise InputError(f"{path} has views or triggers, which VTrace does not write; move it away and run again")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn database errors into errors that a user can act on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise InputError(
                f"the disk is full; {path} keeps all finished items, free some space and run again"
            ) from error
        raise InputError(f"cannot use {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path} is damaged ({error}); move it away and run again") from error
