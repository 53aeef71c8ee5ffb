"""What a method costs when stages are shared: its own seconds, and those of the stages it used."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
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


class StageClock:
    """Computes every shared value once, and records how long its stage took and which methods used it."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._uses: dict[Hashable, set[str]] = {}  # stages that each value needed
        self._seconds: dict[str, float] = {}
        self._spent = 0.0  # in shared stages, so far
        self._touched: set[str] = set()  # stages that the running method has used

    def share(self, stage: str, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """The result of `compute`, which runs the first time this key is requested."""
        if key not in self._made:
            outer, self._touched = self._touched, {stage}
            began, before = time.perf_counter(), self._spent
            self._made[key] = compute()
            own = time.perf_counter() - began - (self._spent - before)
            self._seconds[stage] = self._seconds.get(stage, 0.0) + own
            self._spent += own
            self._uses[key], self._touched = self._touched, outer
        self._touched |= self._uses[key]
        return self._made[key]

    def measure(self, run: Callable[[], _Result]) -> Timed[_Result]:
        """Run a method, and measure its own time separately from that of shared stages."""
        self._touched = set()
        began, before = time.perf_counter(), self._spent
        result = run()
        own = time.perf_counter() - began - (self._spent - before)
        return Timed(result, own, {name: self._seconds[name] for name in sorted(self._touched)})
