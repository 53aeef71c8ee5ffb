"""Numbers in a memory-mapped file, for what does not fit into memory.

The file has no name: the system frees it when nothing uses it any more, also after an exception or a `kill -9`.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import torch
from jaxtyping import Float32
from torch import Tensor

from ..errors import InputError
from .byte_count import format_bytes

_ON_DISK = Path("/var/tmp")  # /tmp is often kept in memory


def scratch_folder() -> Path:
    """Where scratch files go unless a folder is given: TMPDIR, or a temporary folder on a disk."""
    return Path(tempfile.gettempdir()) if "TMPDIR" in os.environ or not _ON_DISK.is_dir() else _ON_DISK


class ScratchFile:
    """A flat array of zeros in a file. Its disk space is reserved at once, so that no later write can fail."""

    def __init__(self, count: int, folder: Path | None = None):
        size, folder = 4 * count, folder or scratch_folder()
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
                self._map = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise InputError(
                f"cannot reserve {format_bytes(size)} in {folder}: {error.strerror or error}; "
                "free some disk space, set TMPDIR to another folder, or allow more memory"
            ) from error

    @property
    def numbers(self) -> Float32[Tensor, " count"]:
        return torch.frombuffer(self._map, dtype=torch.float32)

    def release(self, start: int, stop: int) -> None:
        """Free the memory that holds these numbers. They stay in the file, and are read again when they are used."""
        first = 4 * start // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, first, 4 * stop - first)
