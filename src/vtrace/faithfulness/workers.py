"""The driver's side of work on a benchmark: tasks go out, results come back, and only this process writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..scheduling.scheduler import Notice, Scheduler
from ..scheduling.tasks import Done, Failed, Pool, Task, TaskOutcome
from ..types import Progress
from .item import ChangedExampleError
from .measurement import AnsweredItem, ItemToMeasure, not_measured
from .plan import ResponsePlan
from .rows import LeftOutRow, RunRows, TraceRows
from .store import Shard
from .traces import TraceStore, read_traces, trace_file
from .worker import BatchToFreeze, ChangedExample, ItemWork, SentExample, WorkerGreeting, catalogue_of


class Workers:
    """An engine whose models are in other processes. This one needs no weights.

    Args:
        pool: where the workers live.
        count: how many are wanted.
        benchmark: where the examples come from.
        plan: how the model is asked.
        notice: hears of workers that come and go.
    """

    def __init__(self, pool: Pool, count: int, benchmark: Benchmark, plan: ResponsePlan, notice: Notice):
        self.scheduler = Scheduler(pool, count, admit=self._admit, prepare=self._prepare, notice=notice)
        self._count, self._benchmark, self._plan = count, benchmark, plan
        self._catalogue = catalogue_of(benchmark)
        self._first: WorkerGreeting | None = None

    @property
    def model(self) -> WorkerGreeting:
        """The model of the first worker that started. All others must have the same."""
        return self._first or self.scheduler.meet()

    def _admit(self, greeting: WorkerGreeting) -> str | None:
        self._first = first = self._first or greeting
        if (greeting.revision, greeting.dtype) == (first.revision, first.dtype):
            return None
        return (
            f"its model has the fingerprint {greeting.revision} ({greeting.dtype}), but the first worker's has "
            f"{first.revision} ({first.dtype}); use the same checkpoint everywhere"
        )

    def _prepare(self, task: Task, greeting: WorkerGreeting) -> BatchToFreeze | ItemWork:
        """Keys travel, pictures do not, unless the worker cannot read them."""
        payload: BatchToFreeze | ItemWork = task.payload
        if greeting.catalogue == self._catalogue:
            return payload
        numbers = payload.numbers if isinstance(payload, BatchToFreeze) else (payload.item.number,)
        sent = {number: SentExample(self._benchmark.key(number), self._benchmark.example(number)) for number in numbers}
        return replace(payload, sent=sent)

    def freeze(self, out: Path, numbers: Sequence[int], shard: Shard, progress: Progress) -> None:
        plan = self._plan
        with TraceStore(trace_file(out, shard), plan.settings(self.model, self._benchmark)) as store:
            known = read_traces(out).responses
            missing = [number for number in numbers if self._benchmark.key(number) not in known]
            together = max(1, min(plan.batch, ceil(len(missing) / self._count)))
            batches = [tuple(missing[k : k + together]) for k in range(0, len(missing), together)]
            done, alone = len(numbers) - len(missing), list[tuple[int, ...]]()
            progress(done, len(numbers), f"asking, {self._label}")
            for work in (batches, alone):  # a batch that failed is asked one by one: one example may be the reason
                for outcome in self._run([self._batch(batch) for batch in work]):
                    batch = outcome.task.payload.numbers
                    if isinstance(outcome, Failed) and len(batch) > 1:
                        alone += [(number,) for number in batch]
                        continue
                    store.save(self._unasked(batch, outcome.reason) if isinstance(outcome, Failed) else outcome.value)
                    done += len(batch)
                    progress(done, len(numbers), f"asking, {self._label}")

    def _batch(self, numbers: tuple[int, ...]) -> Task:
        return Task(f"responses from {self._benchmark.key(numbers[0])}", BatchToFreeze(numbers), len(numbers))

    def _unasked(self, numbers: tuple[int, ...], reason: str) -> TraceRows:
        return TraceRows(left_out=[LeftOutRow(item=self._benchmark.key(number), reason=reason) for number in numbers])

    def measure(self, items: Sequence[ItemToMeasure], begin: Callable[[str], None]) -> Iterator[RunRows]:
        for outcome in self.outcomes(items, begin):
            if isinstance(outcome, Failed):
                yield not_measured(outcome.task.payload.item, outcome.reason)
            else:
                yield outcome.value

    def outcomes(self, items: Sequence[AnsweredItem], begin: Callable[[str], None]) -> Iterator[TaskOutcome]:
        """What came of each item, in any order. The payload of a task has the item."""
        begin(self._label)
        for outcome in self._run([Task(one.key, ItemWork(one), len(one.frozen.ids)) for one in items]):
            if isinstance(outcome, Done) and isinstance(outcome.value, ChangedExample):
                raise ChangedExampleError(outcome.value.reason)
            yield outcome
            begin(self._label)

    def _run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        yield from self.scheduler.run(tasks)
        if self.scheduler.draining:
            raise KeyboardInterrupt

    @property
    def _label(self) -> str:
        return f"{self.scheduler.ready} of {self._count} workers"
