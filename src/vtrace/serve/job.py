"""A job: one request in progress, watched from other threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack

from ..tracing.pictures import open_images
from ..tracing.reply import Reply
from ..types import Example

ExplainedTarget = Literal["response", "answer"]
JobStatus = Literal["waiting", "running", "done", "failed", "cancelled", "interrupted"]
EndedStatus = Literal["failed", "cancelled", "interrupted"]  # without a result
FINAL: tuple[JobStatus, ...] = ("done", "failed", "cancelled", "interrupted")


class JobCancelled(Exception):
    """Raised inside the work when its result is no longer needed."""


@dataclass(frozen=True)
class JobRequest:
    """What is to be explained, checked and decoded."""

    id: str
    model: str
    methods: tuple[str, ...]
    target: ExplainedTarget
    example: Example  # without pictures, if those are given as files
    reply: Reply | None = None  # of a response that is already known
    pictures: tuple[bytes, ...] = ()  # files, decoded when the work begins: many requests can wait

    def open_example(self) -> Example:
        """The example with its pictures."""
        return replace(self.example, images=open_images(self.pictures)) if self.pictures else self.example


@dataclass(frozen=True)
class JobState:
    """Progress of a job. The text only grows."""

    status: JobStatus = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    text: str = ""
    error: str | None = None


class _Changes(TypedDict, total=False):
    status: JobStatus
    stage: str
    done: int
    total: int
    text: str
    error: str | None


class Job:
    """Some work, its state, and its watchers."""

    def __init__(self, id: str):
        self.id = id
        self.state = JobState()
        self.place = 0  # in the queue; 1 is next
        self.stopped = ""  # why it should stop
        self._watchers: list[Callable[[], object]] = []
        self.seen = time.monotonic()  # when a client last asked for it

    def update(self, **changes: Unpack[_Changes]) -> None:
        """Called by the one thread that owns the job at the time."""
        self.state = replace(self.state, **changes)
        self.notify()

    def notify(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watched(self, watcher: Callable[[], object]) -> Iterator[None]:
        """`watcher` is called after every change, from any thread; while watched, a job is not abandoned."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self.touch()

    def touch(self) -> None:
        """Note that a client asked for it."""
        self.seen = time.monotonic()

    def abandoned(self, patience: float) -> bool:
        """Whether no client has watched it, or asked for it, for `patience` seconds."""
        return not self._watchers and time.monotonic() - self.seen > patience

    def stop(self, why: str) -> None:
        """Ask the work to end at its next check."""
        self.stopped = self.stopped or why

    def check(self) -> None:
        """Called between the steps of the work."""
        if self.stopped:
            raise JobCancelled(self.stopped)


class ExplanationJob(Job):
    """A question that is answered and explained."""

    def __init__(self, request: JobRequest):
        super().__init__(request.id)
        self.request = request
