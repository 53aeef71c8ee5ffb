"""How long something took, and how much memory it needed at its peak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Memory:
    """Bytes above what was there at the start; None where the system does not tell."""

    peak: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Memory]:
    """Measure the block: of the GPU if it works there, of this process otherwise."""
    memory = Memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield memory
        memory.peak = torch.cuda.max_memory_allocated(device) - before
        return
    before = _resident("VmRSS") if _reset() else None
    yield memory
    memory.peak = None if before is None else max(0, _resident("VmHWM") - before)


def _reset() -> bool:
    """Start the kernel's high-water mark anew; on other systems there is none."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return _STATUS.exists()


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+)", _STATUS.read_text())
    return 1024 * int(found[1]) if found else 0
