"""Tasks, what workers report about them, and what a pool of workers has to offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Task:
    """One piece of work that can be done anywhere, and again."""

    key: str  # unique among the tasks of a run
    payload: Any  # what travels to the worker
    cost: float = 1.0  # expected, in any unit: long tasks go first


@dataclass(frozen=True)
class Done:
    """A task and what the worker returned."""

    task: Task
    value: Any


@dataclass(frozen=True)
class Failed:
    """A task that raised an exception, or that killed several workers."""

    task: Task
    reason: str


TaskOutcome = Done | Failed


@dataclass(frozen=True)
class WorkerRecipe:
    """How any process makes a worker: nothing but names and plain arguments, so that it can travel.

    Args:
        factory: "package.module:function". Called with the arguments, it returns a `Worker`.
        arguments: keyword arguments of the factory.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Worker(Protocol):
    """What a recipe makes, inside the process that does the work."""

    greeting: Any  # what the driver has to know about this worker before it gets a task

    def run(self, payload: Any) -> Any: ...


@dataclass(frozen=True)
class Ready:
    """A worker has started."""

    seat: int
    greeting: Any
    host: str
    process: int


@dataclass(frozen=True)
class Refused:
    """A worker says that it cannot work here, which another attempt would not change."""

    seat: int
    reason: str


@dataclass(frozen=True)
class Finished:
    """The oldest task of a worker is done."""

    seat: int
    value: Any
    seconds: float = 0.0  # that the worker took


@dataclass(frozen=True)
class Raised:
    """The oldest task of a worker raised an exception. The worker lives."""

    seat: int
    reason: str


@dataclass(frozen=True)
class Died:
    """A worker is gone, and with it all tasks that it had."""

    seat: int
    reason: str


Event = Ready | Refused | Finished | Raised | Died


class Pool(Protocol):
    """Workers in numbered seats. No call but `wait` blocks, and a worker does its tasks in the order of submission.

    After `Refused`, `Died` or `stop`, a seat is empty: nothing more is heard of its worker, and another one may be
    started in it.
    """

    def start(self, seat: int) -> None: ...

    def submit(self, seat: int, payload: Any) -> None: ...

    def stop(self, seat: int) -> None: ...

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened: at least one event, unless nothing happens for this long."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...
