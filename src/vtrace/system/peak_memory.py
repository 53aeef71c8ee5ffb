"""Peak memory of a block of code."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_LIBC, _M_ARENA_MAX = "libc.so.6", -8  # of <malloc.h>
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """Peak memory above what was in use when this object was created, on the GPU if that is the device, else in RAM."""

    def __init__(self, device: torch.device):
        self.device = device
        self.peak: int | None = None  # bytes, of the last block; None if the system does not report it
        return_free_memory()
        self._start = memory_in_use(device)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure a block."""
        known = self._reset()
        yield
        self.peak = max(0, self._highest() - self._start) if known else None

    def _highest(self) -> int:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else _resident("VmHWM")

    def _reset(self) -> bool:
        """Reset the high-water mark; only Linux has one per process."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return True
        return_free_memory()
        try:
            _RESET.write_text("5")
        except OSError:
            return False
        return True


def memory_in_use(device: torch.device) -> int:
    """Bytes in use now: on the GPU if that is the device, else resident in RAM."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else _resident("VmRSS")


def return_free_memory() -> None:
    """Return unused memory to the system: what the allocator keeps would distort the next measurement."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(_LIBC).malloc_trim(0)


def share_free_memory() -> None:
    """Let threads that start from now on share unused memory. By default glibc keeps up to 64 MB for each of them,
    which `return_free_memory` cannot return."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(_LIBC).mallopt(_M_ARENA_MAX, 1)


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+)", _STATUS.read_text()) if _STATUS.exists() else None
    return 1024 * int(found[1]) if found else 0
