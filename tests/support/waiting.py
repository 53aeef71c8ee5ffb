"""How long tests wait for what has to happen: long enough for a machine that is busy with other things."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds


def wait_until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for something that another thread, process or browser does."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"{what} has not happened in {PATIENCE:.0f} s"
        time.sleep(0.05)
