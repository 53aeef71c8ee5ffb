"""Where an evaluation runs: in this process, or on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ..benchmarks.benchmark import Benchmark
from ..lvlm.model import Lvlm
from ..tracing.endpoint import Endpoint
from ..types import Progress
from .freeze import freeze_responses
from .measurement import ItemToMeasure, evaluate_item
from .plan import EvaluationPlan, IdentifiedModel
from .rows import RunRows
from .store import Shard


class Engine(Protocol):
    """Does the work of an evaluation. What it measures is written by whoever asked for it."""

    @property
    def model(self) -> IdentifiedModel: ...

    def freeze(self, out: Path, numbers: Sequence[int], shard: Shard, progress: Progress) -> None:
        """Ask about these examples, and freeze the responses in the folder `out`."""
        ...

    def measure(self, items: Sequence[ItemToMeasure], begin: Callable[[str], None]) -> Iterator[RunRows]:
        """The rows of each item, in any order. `begin` is told what is being worked on."""
        ...


class ThisProcess:
    """One item after the other, in the order of the benchmark."""

    def __init__(
        self, lvlm: Lvlm, benchmark: Benchmark, plan: EvaluationPlan, out: Path, endpoint: Endpoint | None = None
    ):
        """With an endpoint, that server generates the responses."""
        self.model, self._out = lvlm, out
        self._benchmark, self._plan, self._endpoint = benchmark, plan, endpoint

    def freeze(self, out: Path, numbers: Sequence[int], shard: Shard, progress: Progress) -> None:
        freeze_responses(
            self.model,
            self._benchmark,
            self._plan.responses,
            out,
            numbers,
            endpoint=self._endpoint,
            shard=shard,
            progress=progress,
        )

    def measure(self, items: Sequence[ItemToMeasure], begin: Callable[[str], None]) -> Iterator[RunRows]:
        for item in items:
            begin(item.key)
            yield evaluate_item(self.model, self._benchmark, self._plan, item, self._out)
