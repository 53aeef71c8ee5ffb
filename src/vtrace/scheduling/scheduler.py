"""The scheduler: which task goes to which worker, and what to do when one of them fails.

It is the same code for local processes, for Ray and for the simulation, which differ in the pool they give it. The
rules:

- Long tasks first. A worker has at most two tasks, so that it never waits for the driver; the second one only while
  there are enough tasks for everybody.
- An exception is a value. A worker whose last ten tasks all raised one is replaced.
- A worker that dies is replaced, and its tasks are queued again. The task that it was working on is to blame: one that
  killed three workers has failed.
- A seat in which three workers in a row did not start stays empty, and so does one whose worker refuses to work. When
  there are no seats left, or workers keep dying and nothing gets done, the run ends with the last reason.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from ..errors import ModelError
from .tasks import Died, Done, Event, Failed, Finished, Pool, Raised, Ready, Refused, Task, TaskOutcome

TASKS_AHEAD = 2  # of a worker: the one it works on, and the next
KILLS_PER_TASK = 3
FAILURES_IN_A_ROW = 10
STARTS_PER_SEAT = 3
WAITING_SECONDS = 0.5  # after which the loop looks whether it was told to drain

WorkerState = Literal["ready", "refused", "died", "replaced"]
Notice = Callable[[int, WorkerState, str], None]  # seat, what happened to its worker, and why
Admission = Callable[[Any], str | None]  # of a greeting: why this worker must not work, or None
Prepare = Callable[[Task, Any], Any]  # task and greeting: what is sent to this worker


class NoWorkersError(ModelError):
    """Work is left, and no worker can do it."""


@dataclass
class _Seat:
    """One worker, from its start to its end."""

    failed_starts: int = 0  # of its predecessors, in a row
    ready: bool = False
    greeting: Any = None
    tasks: list[Task] = field(default_factory=list)  # the oldest is the one it works on
    failures: int = 0  # in a row


class Scheduler:
    """Workers that do tasks. `run` may be called several times, and workers stay in between.

    Args:
        pool: where workers live.
        workers: how many are wanted.
        admit: looks at the greeting of a worker and says why it must not work, or None.
        prepare: what is sent to a worker for a task; by default the payload of the task.
        notice: hears of workers that come and go.
    """

    def __init__(
        self,
        pool: Pool,
        workers: int,
        *,
        admit: Admission = lambda greeting: None,
        prepare: Prepare = lambda task, greeting: task.payload,
        notice: Notice = lambda seat, state, reason: None,
    ):
        self.pool = pool
        self.draining = False
        self._admit, self._prepare, self._notice = admit, prepare, notice
        self._free = list(range(workers - 1, -1, -1))  # seats that a worker may be started in
        self._seats: dict[int, _Seat] = {}
        self._with_room: list[dict[int, None]] = [{} for _ in range(TASKS_AHEAD)]  # ready seats, by number of tasks
        self._queue: list[tuple[float, int, Task]] = []
        self._left = 0  # tasks that have no outcome yet
        self._order = count()  # of tasks that cost the same
        self._kills: Counter[str] = Counter()
        self._deaths = 0  # since a task was last done
        self._end = ""  # why no worker can live
        self._most_deaths = max(FAILURES_IN_A_ROW, STARTS_PER_SEAT * workers)

    @property
    def ready(self) -> int:
        """Number of workers that can work."""
        return sum(seat.ready for seat in self._seats.values())

    def meet(self) -> Any:
        """Start all workers, and return the greeting of the first one that is ready."""
        self._start_workers(len(self._free))
        while not self.ready:
            if self.draining:
                raise KeyboardInterrupt
            list(self._events())
        return next(seat.greeting for seat in self._seats.values() if seat.ready)

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskOutcome]:
        """Outcomes in the order in which they arrive. Ends early if `drain` was called."""
        for task in tasks:
            self._push(task)
        self._left = len(self._queue)
        while self._left:
            if self.draining and not any(seat.tasks for seat in self._seats.values()):
                return
            self._start_workers(self._left)
            self._hand_out()
            yield from self._events()

    def drain(self) -> None:
        """Hand out no more tasks, and let workers finish what they are working on."""
        self.draining = True

    def _events(self) -> Iterator[TaskOutcome]:
        """Whatever was done is passed on before the run ends."""
        for event in self.pool.wait(WAITING_SECONDS):
            yield from self._handle(event)
        if self._end:
            raise NoWorkersError(self._end)

    def _push(self, task: Task) -> None:
        heapq.heappush(self._queue, (-task.cost, next(self._order), task))

    def _start_workers(self, wanted: int) -> None:
        while self._free and len(self._seats) < wanted and not self.draining:
            self._start(self._free.pop(), _Seat())

    def _start(self, number: int, seat: _Seat) -> None:
        self._seats[number] = seat
        self.pool.start(number)

    def _hand_out(self) -> None:
        """One task for everybody who has none, then the next ones, as long as nobody could be left without."""
        if self.draining:
            return
        for ahead, seats in enumerate(self._with_room):
            while seats and len(self._queue) > ahead * len(self._seats):
                number = next(iter(seats))
                seat, (*_, task) = self._seats[number], heapq.heappop(self._queue)
                seat.tasks.append(task)
                self._sort(number)
                self.pool.submit(number, self._prepare(task, seat.greeting))

    def _sort(self, number: int) -> None:
        """Put a seat among those with as many tasks, if it has room for another."""
        for seats in self._with_room:
            seats.pop(number, None)
        seat = self._seats.get(number)
        if seat and seat.ready and len(seat.tasks) < TASKS_AHEAD:
            self._with_room[len(seat.tasks)][number] = None

    def _handle(self, event: Event) -> Iterator[TaskOutcome]:
        if event.seat not in self._seats:
            return  # of a worker that was stopped while its pool reported several events
        match event:
            case Ready():
                self._welcome(event)
            case Refused(number, reason):
                self._lose(number, "refused", reason)
                self._give_up(reason)
            case Finished(number, value, _):
                self._deaths = 0
                self._seats[number].failures = 0
                yield from self._report(number, Done(self._seats[number].tasks.pop(0), value))
            case Raised(number, reason):
                seat = self._seats[number]
                seat.failures += 1
                yield from self._report(number, Failed(seat.tasks.pop(0), reason))
                if seat.failures == FAILURES_IN_A_ROW and not self.draining:
                    self.pool.stop(number)
                    self._lose(number, "replaced", f"{FAILURES_IN_A_ROW} tasks in a row failed: {reason}")
                    self._free.append(number)
            case Died(number, reason):
                yield from self._bury(number, reason)

    def _report(self, number: int, outcome: TaskOutcome) -> Iterator[TaskOutcome]:
        """While draining, a worker ends with the task that it was working on."""
        self._left -= 1
        if self.draining:
            self.pool.stop(number)
            del self._seats[number]
        self._sort(number)
        yield outcome

    def _welcome(self, event: Ready) -> None:
        seat = self._seats[event.seat]
        if reason := self._admit(event.greeting):
            self.pool.stop(event.seat)
            self._lose(event.seat, "refused", f"{reason} (on {event.host})")
            self._give_up(reason)
            return
        seat.ready, seat.greeting = True, event.greeting
        self._sort(event.seat)
        self._notice(event.seat, "ready", f"process {event.process} on {event.host}")

    def _bury(self, number: int, reason: str) -> Iterator[TaskOutcome]:
        seat = self._seats[number]
        if not seat.ready:
            self._lose(number, "died", reason)
            if seat.failed_starts + 1 < STARTS_PER_SEAT:
                self._start(number, _Seat(failed_starts=seat.failed_starts + 1))
            else:
                self._give_up(reason)
            return
        self._deaths += 1
        if seat.tasks:
            blamed = seat.tasks[0]
            self._kills[blamed.key] += 1
            if self._kills[blamed.key] == KILLS_PER_TASK:
                del seat.tasks[0]
                self._left -= 1
                yield Failed(blamed, f"{KILLS_PER_TASK} workers died of it: {reason}")
        self._lose(number, "died", reason)
        self._free.append(number)
        if self._deaths == self._most_deaths:
            self._end = f"workers keep dying, the last {self._deaths} without finishing anything: {reason}"

    def _lose(self, number: int, state: WorkerState, reason: str) -> None:
        """A worker is gone. Its tasks are queued again."""
        for task in self._seats.pop(number).tasks:
            self._push(task)
        self._sort(number)
        self._notice(number, state, reason)

    def _give_up(self, reason: str) -> None:
        """Its seat stays empty. If that was the last one, so does the run."""
        if not self._seats and not self._free:
            self._end = f"no worker can start: {reason}"
