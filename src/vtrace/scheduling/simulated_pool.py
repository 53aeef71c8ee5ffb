"""Workers that only exist in a simulation, with a clock of their own."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from itertools import count
from typing import Any

from .tasks import Died, Event, Finished, Ready


@dataclass(frozen=True)
class SimulatedCosts:
    """How long everything takes, in seconds."""

    start: float = 0.0  # of a worker: process, libraries, weights
    driver: float = 0.0  # of the driver, for each finished task: take it, store it, hand out the next
    between_failures: float = math.inf  # mean time that a worker lives
    slow_workers: float = 0.0  # share of workers that are slow,
    slowdown: float = 1.0  # and by which factor


@dataclass
class _SimulatedWorker:
    dies_at: float
    factor: float
    free_at: float  # when it has done all tasks that it has


class SimulatedPool:
    """A pool in which time passes only in `wait`. Payloads are the seconds that tasks take.

    Reports arrive one after another: while the driver is busy with one, the next ones wait, and so do workers that have
    nothing left to do. This is how the driver becomes the bottleneck.
    """

    def __init__(self, costs: SimulatedCosts, seed: int = 0):
        self.costs = costs
        self.clock = 0.0
        self.busy = 0.0  # seconds that the driver worked
        self._random = random.Random(seed)
        self._workers: dict[int, _SimulatedWorker] = {}
        self._events: list[tuple[float, int, Event, _SimulatedWorker]] = []
        self._order = count()

    def start(self, seat: int) -> None:
        slow = self._random.random() < self.costs.slow_workers
        ready = self.clock + self.costs.start
        lives = self._random.expovariate(1.0) * self.costs.between_failures
        worker = _SimulatedWorker(self.clock + lives, self.costs.slowdown if slow else 1.0, ready)
        self._workers[seat] = worker
        self._report(worker, worker.dies_at, Died(seat, "simulated failure"))
        self._report(worker, ready, Ready(seat, None, "simulated", seat))

    def submit(self, seat: int, payload: Any) -> None:
        worker = self._workers[seat]
        worker.free_at = max(worker.free_at, self.clock) + float(payload) * worker.factor
        self._report(worker, worker.free_at, Finished(seat, payload))

    def stop(self, seat: int) -> None:
        del self._workers[seat]

    def _report(self, worker: _SimulatedWorker, when: float, event: Event) -> None:
        if when <= worker.dies_at and when < math.inf:
            heapq.heappush(self._events, (when, next(self._order), event, worker))

    def wait(self, seconds: float) -> list[Event]:
        """The next event; the clock moves there, and on by what the driver does with it."""
        while self._events:
            when, _, event, worker = heapq.heappop(self._events)
            if self._workers.get(event.seat) is not worker:
                continue  # of a worker that is gone
            self.clock = max(self.clock, when)
            if isinstance(event, Died):
                del self._workers[event.seat]
            if isinstance(event, Finished):
                self.clock += self.costs.driver
                self.busy += self.costs.driver
            return [event]
        return []

    def close(self) -> None:
        self._workers.clear()
