"""Writing and locking files, with errors that say what to do. The only place that creates files for users."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import InputError

_LOCK_SUFFIX = ".lock"
RESERVE_ENDING = "-reserve"
_ENDINGS = (_LOCK_SUFFIX, RESERVE_ENDING, "-wal", "-shm", "-journal")  # of files that belong to a database
_DESCRIPTORS = "/dev/fd"
_MOST_LINKS = 40  # on the way to one file, as in Linux


def locked(path: Path, option: str = "--out", private: bool = False) -> IO[bytes]:
    """Create the folder of a file, and lock the file against other processes until the returned handle is closed.

    `option` is what chooses the file, for messages; if `private`, only the owner can open a folder created here. The
    lock file is never truncated, so a file that happens to have its name keeps its contents.
    """
    _check_store(path, option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        lock = path.with_suffix(_LOCK_SUFFIX).open("ab")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {_reason(error)}; choose another {option}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InputError(
            f"another process is writing to {path}; wait for it, stop it, or choose another {option}"
        ) from error
    return lock


def _check_store(path: Path, option: str) -> None:
    """Refuse a name that cannot be that of a database: a folder, a device, or a file that belongs to another one."""
    if not path.name or os.path.isdir(path):
        raise InputError(f"{str(path)!r} is not a file name; choose another {option}")
    if path.name.endswith(_ENDINGS):
        raise InputError(f"{path.name} is the name of a file that belongs to a database; choose another {option}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path} is not a regular file; choose another {option}")


def check_writable(path: Path) -> None:
    """Check, before any slow work, that this file can be written."""
    try:
        place = _followed(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}; choose another place") from error
    folder = place.parent
    if os.path.isdir(place):
        raise InputError(f"{path} is a folder; give a file name")
    if is_stream(place):
        if not os.access(place, os.W_OK):
            raise InputError(f"cannot write {path}: permission denied; choose another")
    elif not os.path.isdir(folder):
        raise InputError(f"cannot write {path}: there is no folder {folder}; create it first")
    elif not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {folder} is read-only; choose another")


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file, which then becomes `path`, so that no incomplete file is left behind.

    A link stays a link: the file that it points to is replaced. A device, a pipe, or a file that this process was
    started with, such as /dev/stdout, receives the finished bytes. A new file gets the permissions that the user's
    umask gives, and an existing one keeps its own.
    """
    try:
        place = _followed(Path(path))
        if is_stream(place):
            _pour(place, write)
        else:
            _replace(place, write)
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}; choose another place") from error
    return Path(path)


def _replace(place: Path, write: Callable[[Path], object]) -> None:
    temporary = place.parent / f".vtrace-{secrets.token_hex(8)}{place.suffix[:16]}"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # less the umask
    try:
        write(temporary)
        if place.exists():
            with suppress(PermissionError):  # only root can give a file to somebody
                shutil.chown(temporary, place.stat().st_uid, place.stat().st_gid)
            shutil.copymode(place, temporary)
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


def _pour(place: Path, write: Callable[[Path], object]) -> None:
    """Fill a file in a temporary folder, and send its bytes into a device or a pipe."""
    with tempfile.TemporaryDirectory(prefix="vtrace-") as folder:
        filled = Path(folder) / f"file{place.suffix[:16]}"
        write(filled)
        # An open file is not opened again: that would cut off what `>>` has kept.
        target = os.dup(int(place.name)) if _is_descriptor(place) else place
        with filled.open("rb") as source, open(target, "wb") as stream:
            shutil.copyfileobj(source, stream)


def _followed(path: Path) -> Path:
    """Where links lead in the end. The name of an open file, such as /dev/fd/1, is not followed any further."""
    for _ in range(_MOST_LINKS):
        if not os.path.islink(path) or _is_descriptor(path):
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_descriptor(place: Path) -> bool:
    """Whether this is the name of a file that the process has open."""
    return place.name.isdecimal() and os.path.realpath(place.parent) == os.path.realpath(_DESCRIPTORS)


def is_stream(place: Path) -> bool:
    """Whether this receives bytes and cannot be replaced: a device, a pipe, a socket, or an open file."""
    with suppress(OSError):
        place = _followed(place)
    special = os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place)
    return special or _is_descriptor(place)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
