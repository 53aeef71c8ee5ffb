"""What a method costs when stages are shared: its own seconds, and those of the stages it used."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

_Result = TypeVar("_Result")


class Timed(NamedTuple, Generic[_Result]):
    """A result, the seconds spent on it alone, and the seconds of every shared stage it needed."""

    result: _Result
    own_seconds: float
    shared: dict[str, float]

    @property
    def seconds(self) -> float:
        """Seconds as if it had run alone."""
        return self.own_seconds + sum(self.shared.values())


@dataclass(frozen=True)
class _Cost:
    """Cost of a shared value: its stage, its own seconds, and the keys of everything it needed."""

    stage: str
    seconds: float
    needs: frozenset[Hashable]


class StageClock:
    """Computes every shared value once, and records how long it took and what it needed."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._costs: dict[Hashable, _Cost] = {}
        self._spent = 0.0  # in shared stages, so far
        self._touched: set[Hashable] = set()  # keys that the running method has used

    def has(self, key: Hashable) -> bool:
        """Whether this value is in memory."""
        return key in self._values

    def release(self, key: Hashable) -> None:
        """Free a large value. What it cost is still known; it is computed again if it is requested again."""
        self._values.pop(key, None)

    def share(self, stage: str, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """The result of `compute`, which runs the first time this key is requested."""
        if key not in self._values:
            outer, self._touched = self._touched, {key}
            began, before = time.perf_counter(), self._spent
            self._values[key] = compute()
            own = time.perf_counter() - began - (self._spent - before)
            self._costs[key] = _Cost(stage, own, frozenset(self._touched))
            self._spent += own
            self._touched = outer
        self._touched |= self._costs[key].needs
        return self._values[key]

    def measure(self, run: Callable[[], _Result]) -> Timed[_Result]:
        """Run a method, and measure its own time separately from that of shared stages."""
        self._touched = set()
        began, before = time.perf_counter(), self._spent
        result = run()
        own = time.perf_counter() - began - (self._spent - before)
        shared: dict[str, float] = {}
        for cost in sorted((self._costs[key] for key in self._touched), key=lambda cost: cost.stage):
            shared[cost.stage] = shared.get(cost.stage, 0.0) + cost.seconds
        return Timed(result, own, shared)
