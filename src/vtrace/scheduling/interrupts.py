"""Ctrl-C once lets running work finish, twice stops it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def draining_on_interrupt(drain: Callable[[], None]) -> Iterator[None]:
    """Within this block, the first Ctrl-C calls `drain`. The second one raises KeyboardInterrupt, as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    before = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        drain()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
