"""Where explanations are made: in this process, or on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..benchmarks.benchmark import Benchmark
from ..faithfulness.freeze import freeze_responses
from ..faithfulness.measurement import AnsweredItem
from ..faithfulness.plan import IdentifiedModel
from ..faithfulness.rows import LeftOutRow
from ..faithfulness.store import WHOLE_RUN
from ..faithfulness.worker import BenchmarkWorker
from ..faithfulness.workers import Workers
from ..lvlm.model import Lvlm
from ..scheduling.tasks import Failed
from ..types import Progress
from .item import explain_answered
from .plan import ExplanationPlan
from .rows import ExplainedItem


class Explainer(Protocol):
    """Asks and explains. What it makes is written by whoever asked for it."""

    @property
    def model(self) -> IdentifiedModel: ...

    def freeze(self, out: Path, numbers: Sequence[int], progress: Progress) -> None:
        """Ask about these examples, and freeze the responses in the folder `out`."""
        ...

    def explain(
        self, items: Sequence[AnsweredItem], begin: Callable[[str], None]
    ) -> Iterator[ExplainedItem | LeftOutRow]:
        """What comes of each item, in any order. `begin` is told what is being worked on."""
        ...


class ExplainHere:
    """One item after the other, in the order of the benchmark."""

    def __init__(self, lvlm: Lvlm, benchmark: Benchmark, plan: ExplanationPlan, out: Path):
        self.model, self._out = lvlm, out
        self._benchmark, self._plan = benchmark, plan

    def freeze(self, out: Path, numbers: Sequence[int], progress: Progress) -> None:
        freeze_responses(self.model, self._benchmark, self._plan.responses, out, numbers, progress=progress)

    def explain(
        self, items: Sequence[AnsweredItem], begin: Callable[[str], None]
    ) -> Iterator[ExplainedItem | LeftOutRow]:
        for item in items:
            begin(item.key)
            yield explain_answered(self.model, self._benchmark, self._plan, item, self._out)


class ExplainOnWorkers:
    """Items are dealt out to the workers, the longest first. This process needs no weights."""

    def __init__(self, workers: Workers):
        self._workers = workers

    @property
    def model(self) -> IdentifiedModel:
        return self._workers.model

    def freeze(self, out: Path, numbers: Sequence[int], progress: Progress) -> None:
        self._workers.freeze(out, numbers, WHOLE_RUN, progress)

    def explain(
        self, items: Sequence[AnsweredItem], begin: Callable[[str], None]
    ) -> Iterator[ExplainedItem | LeftOutRow]:
        for outcome in self._workers.outcomes(items, begin):
            if isinstance(outcome, Failed):
                yield LeftOutRow(item=outcome.task.key, reason=outcome.reason)
            else:
                yield outcome.value


class ExplainingWorker(BenchmarkWorker):
    """A worker that explains. `plan` says what and how."""

    def __init__(self, plan: ExplanationPlan, **loading: Any):
        super().__init__(responses=plan.responses, **loading)
        self._plan = plan

    def work(self, benchmark: Benchmark, item: AnsweredItem) -> ExplainedItem | LeftOutRow:
        return explain_answered(self.lvlm, benchmark, self._plan, item)
