"""Atomic writes, locks, and readers whose errors say what to do."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, first_line


def read_json(path: Path, what: str) -> Any:
    """The contents of a JSON file. Errors say `what` the file should be."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not {what}: {first_line(error)}") from error


def read_lines(path: Path) -> list[Any]:
    """The entries of a JSONL file, if it exists. A line that a killed process left incomplete is skipped."""
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {first_line(error)}; move it away and run again") from error
    entries = []
    for line in lines:
        with suppress(ValueError):
            entries.append(json.loads(line))
    return entries


def locked(path: Path) -> IO[str]:
    """Create the folder of a file, and lock the file against other processes until the returned handle is closed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another --out") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InputError(f"another process is writing to {path}; wait for it, or choose another --out") from error
    return lock


def append_line(path: Path, entry: Any) -> None:
    """Append an entry to a JSONL file, on a new line even if the line before is incomplete."""
    try:
        with path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * torn + json.dumps(entry).encode("utf-8") + b"\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; earlier results are kept") from error


def check_writable(path: Path) -> None:
    """Check, before any slow work, that the folder of this file exists and can be written to."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file name")
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {folder} is read-only; choose another")


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to `path`, then rename it, so that no incomplete file is left behind."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path
