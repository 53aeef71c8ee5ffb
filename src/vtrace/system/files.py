"""Atomic writes, locks, and readers whose errors say what to do."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable
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


def locked(path: Path, option: str = "--out", private: bool = False) -> IO[str]:
    """Create the folder of a file, and lock the file against other processes until the returned handle is closed.

    `option` is what chooses the file, for messages; if `private`, only the owner can open a folder created here.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        lock = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another {option}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InputError(
            f"another process is writing to {path}; wait for it, stop it, or choose another {option}"
        ) from error
    return lock


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
