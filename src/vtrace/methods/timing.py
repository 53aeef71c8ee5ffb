"""What a method costs when stages are shared: its own seconds and passes, and those of the stages it used."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..lvlm.pass_count import PassCounter

_Result = TypeVar("_Result")


class Timed(NamedTuple, Generic[_Result]):
    """A result, the seconds spent on it alone, and the seconds of every shared stage it needed."""

    result: _Result
    own_seconds: float
    shared: dict[str, float]
    passes: int  # sequences decoded, as if it had run alone

    @property
    def seconds(self) -> float:
        """Seconds as if it had run alone."""
        return self.own_seconds + sum(self.shared.values())


@dataclass(frozen=True)
class _Cost:
    """Cost of a shared value: its stage, its own seconds and passes, and the keys of everything it needed."""

    stage: str
    seconds: float
    passes: int
    needs: frozenset[Hashable]


class _Reading(NamedTuple):
    """Seconds and passes so far: of everything, or only of shared stages."""

    seconds: float
    passes: int

    def since(self, before: _Reading) -> _Reading:
        return _Reading(self.seconds - before.seconds, self.passes - before.passes)


class StageClock:
    """Computes every shared value once, and records how long it took and what it needed."""

    def __init__(self, counter: PassCounter) -> None:
        self._counter = counter
        self._values: dict[Hashable, Any] = {}
        self._costs: dict[Hashable, _Cost] = {}
        self._spent = _Reading(0.0, 0)  # in shared stages, so far
        self._touched: set[Hashable] = set()  # keys that the running method has used

    def release(self, key: Hashable) -> None:
        """Free a large value. What it cost is still known; it is computed again if it is requested again."""
        self._values.pop(key, None)

    def share(self, stage: str, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """The result of `compute`, which runs the first time this key is requested."""
        if key not in self._values:
            outer, self._touched = self._touched, {key}
            self._values[key], own = self._run(compute)
            self._costs[key] = _Cost(stage, own.seconds, own.passes, frozenset(self._touched))
            self._spent = _Reading(self._spent.seconds + own.seconds, self._spent.passes + own.passes)
            self._touched = outer
        self.charge(key)
        return self._values[key]

    def charge(self, key: Hashable) -> None:
        """Count a value that has been computed, and may have been released, among the costs of whoever asks."""
        self._touched |= self._costs[key].needs

    def measure(self, run: Callable[[], _Result]) -> Timed[_Result]:
        """Run a method, and measure its own time separately from that of shared stages."""
        self._touched = set()
        result, own = self._run(run)
        used = sorted((self._costs[key] for key in self._touched), key=lambda cost: cost.stage)
        shared: dict[str, float] = {}
        for cost in used:
            shared[cost.stage] = shared.get(cost.stage, 0.0) + cost.seconds
        return Timed(result, own.seconds, shared, own.passes + sum(cost.passes for cost in used))

    def _run(self, compute: Callable[[], _Result]) -> tuple[_Result, _Reading]:
        """A result, and what it cost without the shared stages inside it."""
        with self._counter:
            began, before = self._now(), self._spent
            result = compute()
            total, inside = self._now().since(began), self._spent.since(before)
        return result, total.since(inside)

    def _now(self) -> _Reading:
        return _Reading(time.perf_counter(), self._counter.count)
