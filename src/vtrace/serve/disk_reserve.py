"""Space that is set aside, so that on a full disk explanations can still be deleted and their status recorded."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 4 * 2**20


class DiskReserve:
    """A file of no use but its size. It is given up when the disk is full, and made again when there is room."""

    def __init__(self, path: Path):
        self.path = path
        self.fill()

    def fill(self) -> None:
        if self.path.exists() and self.path.stat().st_size == RESERVE_BYTES:
            return
        with suppress(OSError):
            handle = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(handle, 0, RESERVE_BYTES)
            except OSError:
                self.path.unlink()
            finally:
                os.close(handle)

    def release(self) -> None:
        self.path.unlink(missing_ok=True)
