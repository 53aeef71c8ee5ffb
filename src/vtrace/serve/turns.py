"""Work that needs much memory, such as decoding pictures and building pages: one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..system.peak_memory import return_free_memory
from .queue import QueueFull


class Turns:
    """Lets one thread in at a time. A few others may wait; further ones are told to come back."""

    def __init__(self, waiting: int):
        self._turn = threading.Lock()
        self._places = threading.BoundedSemaphore(1 + waiting)

    @contextmanager
    def take(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise QueueFull
        try:
            with self._turn:
                try:
                    yield
                finally:
                    return_free_memory()
        finally:
            self._places.release()
