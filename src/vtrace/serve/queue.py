"""The queue: bounded, first come first served; every job in it knows its place."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .job import Job


class QueueFull(Exception):
    """The queue is full."""


class QueueClosed(Exception):
    """The server is stopping."""


JoinQueue = Callable[[Job, Callable[[], None]], None]


class JobQueue:
    """Waiting jobs, and the running one."""

    def __init__(self, room: int):
        self.room = room
        self.running: Job | None = None
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._reserved = 0  # places of requests that are still being read
        self._closed = False
        self._recent: deque[float] = deque([1.0], maxlen=8)  # seconds of the last jobs

    @contextmanager
    def reserved(self) -> Iterator[JoinQueue]:
        """Take a place before any work is done for a request, or raise `QueueFull`.

        Yields a function that puts a job there; `admit` runs before the work on it can begin. Without that call, the
        place is free again at the end of the block.
        """
        with self._changed:
            if self._closed:
                raise QueueClosed
            if len(self._waiting) + self._reserved >= self.room:
                raise QueueFull
            self._reserved += 1
        held = True

        def join(job: Job, admit: Callable[[], None]) -> None:
            nonlocal held
            with self._changed:
                if self._closed:
                    raise QueueClosed
                admit()
                self._reserved, held = self._reserved - 1, False
                self._waiting.append(job)
                self._renumber()
                self._changed.notify_all()

        try:
            yield join
        finally:
            if held:
                with self._changed:
                    self._reserved -= 1

    def next(self) -> Job | None:
        """Wait for a job and make it the running one; None when the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            self.running = self._waiting.popleft()
            self._renumber()
            return self.running

    def leave(self, job: Job) -> bool:
        """Remove a waiting job; False if it was no longer waiting."""
        with self._changed:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            self._renumber()
            return True

    def done(self, seconds: float) -> None:
        """The running job has ended."""
        with self._changed:
            self.running = None
            self._recent.append(seconds)
            self._renumber()
            self._changed.notify_all()

    def jobs(self) -> list[Job]:
        with self._changed:
            return [*([self.running] if self.running else []), *self._waiting]

    def find(self, id: str) -> Job | None:
        return next((job for job in self.jobs() if job.id == id), None)

    def retry_after(self) -> int:
        """Whole seconds until a place is likely to be free."""
        return max(1, round(sum(self._recent) / len(self._recent)))

    def close(self) -> list[Job]:
        """Accept no more jobs; returns those that were still waiting."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return waiting

    def _renumber(self) -> None:
        """Renumber the waiting jobs from 1; the running job is ahead of them."""
        for place, job in enumerate(self._waiting, start=1):
            if job.place != place:
                job.place = place
                job.notify()
