"""The queue: bounded, first come first served, and everyone in it can see their place."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..tracing.generate import Reply
from ..types import Example


class Full(Exception):
    """No room in the queue."""


class Closed(Exception):
    """The server is stopping."""


class Cancelled(Exception):
    """Raised inside the work when nobody wants it any more."""


@dataclass(frozen=True)
class Request:
    """What is to be explained, checked and decoded."""

    id: str
    model: str
    methods: tuple[str, ...]
    target: str
    example: Example
    reply: Reply | None = None  # of a response that is known already


@dataclass(frozen=True)
class State:
    """Where a job stands. The text only ever grows."""

    status: str = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    text: str = ""
    error: str | None = None


class Job:
    """A request on its way, watched from other threads."""

    def __init__(self, request: Request):
        self.request = request
        self.state = State()
        self.place = 0
        self.stopped = ""  # why it should stop
        self._watchers: list[Callable[[], object]] = []
        self._seen = time.monotonic()

    def update(self, **changes: object) -> None:
        """Called by the one thread that owns the job at the time."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self.notify()

    def notify(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watched(self, watcher: Callable[[], object]) -> Iterator[None]:
        """`watcher` is called after every change, from any thread; meanwhile the job is wanted."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self.touch()

    def touch(self) -> None:
        """Someone asked for it."""
        self._seen = time.monotonic()

    def left(self, patience: float) -> bool:
        return not self._watchers and time.monotonic() - self._seen > patience

    def stop(self, why: str) -> None:
        """Ask the work to end at its next check."""
        self.stopped = self.stopped or why

    def check(self) -> None:
        if self.stopped:
            raise Cancelled(self.stopped)


class Queue:
    """Jobs that wait, and the one that runs."""

    def __init__(self, room: int):
        self.room = room
        self.running: Job | None = None
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._recent: deque[float] = deque([1.0], maxlen=8)  # seconds of the last jobs

    def join(self, job: Job, admit: Callable[[], None] = lambda: None) -> None:
        """Take the last place. `admit` runs once there is room and before the work can begin."""
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._waiting) >= self.room:
                raise Full
            admit()
            self._waiting.append(job)
            self._renumber()
            self._changed.notify_all()

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
        """Give up a place; False if the job was not waiting any more."""
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
        return next((job for job in self.jobs() if job.request.id == id), None)

    def retry_after(self) -> int:
        """Whole seconds until a place is likely to be free."""
        return max(1, round(sum(self._recent) / len(self._recent)))

    def close(self) -> list[Job]:
        """Let nobody in any more; the jobs that were still waiting."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return waiting

    def _renumber(self) -> None:
        """Places count from 1, with the running job in front of them."""
        for place, job in enumerate(self._waiting, start=1):
            if job.place != place:
                job.place = place
                job.notify()
