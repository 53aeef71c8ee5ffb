"""Space that is set aside, so that on a full disk explanations can still be deleted and their status recorded."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..system.files import RESERVE_ENDING

RESERVE_BYTES = 4 * 2**20
_LEAST_BYTES = RESERVE_BYTES // 8  # worth having if there is no room for more


class DiskReserve:
    """A file of no use but its size. It is given up when the disk is full, and made again at once, as large as
    possible: otherwise the next result would take the space."""

    def __init__(self, database: Path):
        self.path = database.with_name(database.name + RESERVE_ENDING)
        self.fill()

    def fill(self) -> None:
        size = RESERVE_BYTES
        while size >= _LEAST_BYTES and not self._reserved(size):
            size //= 2

    def _reserved(self, size: int) -> bool:
        """Whether the file has this size, now if not before."""
        with suppress(OSError):
            handle = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(handle, 0, size)
                return True
            finally:
                os.close(handle)
        return False

    def release(self) -> None:
        self.path.unlink(missing_ok=True)
