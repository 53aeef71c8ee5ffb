"""The worker's side: load the model, open the benchmark, ask about examples, and do what the driver wants of each."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmarks.benchmark import Benchmark
from ..benchmarks.registry import open_benchmark
from ..errors import VTraceError
from ..lvlm.dtypes import find_dtype
from ..lvlm.family_choice import find_family
from ..lvlm.load import load
from ..scheduling.tasks import WorkerRecipe
from ..types import Example
from .freeze import freeze_batch
from .item import ChangedExampleError
from .measurement import AnsweredItem, ItemToMeasure, evaluate_item
from .plan import EvaluationPlan, ResponsePlan
from .rows import RunRows


@dataclass(frozen=True)
class WorkerGreeting:
    """What the driver checks before a worker gets tasks."""

    name: str
    revision: str
    dtype: str
    probed: bool
    catalogue: str  # of the benchmark as this worker reads it; empty if it cannot


class SentExample(NamedTuple):
    """An example that travels, because the worker cannot read it."""

    key: str
    example: Example


@dataclass(frozen=True)
class BatchToFreeze:
    """Examples that are asked together."""

    numbers: tuple[int, ...]
    sent: Mapping[int, SentExample] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemWork:
    """An item whose response is frozen, and which is measured or explained."""

    item: AnsweredItem
    sent: Mapping[int, SentExample] = field(default_factory=dict)


class ChangedExample(NamedTuple):
    """An answer that ends the run: the example is not the one that was asked."""

    reason: str


class BenchmarkWorker(ABC):
    """One replica of the model. What it does with an item that has a response is up to its kind.

    Args:
        model: its name as given, which the run records.
        place: where it is loaded from.
        dtype: of its weights; empty for the default.
        device: where it runs; empty for the default.
        benchmark: name, data and samples of `open_benchmark`.
        blur: of the benchmark.
        responses: how the model is asked.
        adapter: of the model; empty for none.
        family: of the model, as the user asked for it; empty for that of the checkpoint.
    """

    def __init__(
        self,
        model: str,
        place: str,
        dtype: str,
        device: str,
        benchmark: tuple[str, Path | None, Path | None],
        blur: float,
        responses: ResponsePlan,
        adapter: str = "",
        family: str = "",
    ):
        self._responses, self._blur = responses, blur
        self._benchmark = _readable(*benchmark)
        loaded = load(
            place,
            dtype=find_dtype(dtype),
            device=device or None,
            adapter=adapter or None,
            family=find_family(family),
        )
        self.lvlm = replace(loaded, name=loaded.name.replace(place, model))
        catalogue = catalogue_of(self._benchmark) if self._benchmark else ""
        lvlm = self.lvlm
        self.greeting = WorkerGreeting(lvlm.name, lvlm.revision, lvlm.dtype, lvlm.probed, catalogue)

    @abstractmethod
    def work(self, benchmark: Benchmark, item: Any) -> Any:
        """What comes of one item."""

    def run(self, payload: BatchToFreeze | ItemWork) -> Any:
        benchmark = self._sent(payload.sent) if payload.sent else self._benchmark
        assert benchmark is not None, "examples are sent to a worker that cannot read them"
        if isinstance(payload, BatchToFreeze):
            return freeze_batch(self.lvlm, benchmark, self._responses, payload.numbers)
        try:
            return self.work(benchmark, payload.item)
        except ChangedExampleError as error:
            return ChangedExample(str(error))

    def _sent(self, sent: Mapping[int, SentExample]) -> Benchmark:
        return Benchmark("", len(sent), lambda n: sent[n].key, lambda n: sent[n].example, self._blur)


class EvaluationWorker(BenchmarkWorker):
    """Measures what is missing about an item. `plan` says what is measured."""

    def __init__(self, plan: EvaluationPlan, **loading: Any):
        super().__init__(responses=plan.responses, **loading)
        self._plan = plan

    def work(self, benchmark: Benchmark, item: ItemToMeasure) -> RunRows:
        return evaluate_item(self.lvlm, benchmark, self._plan, item)


def evaluation_recipe(
    model: str,
    dtype: str,
    device: str,
    benchmark: Benchmark,
    source: tuple[str, Path | None, Path | None],
    plan: EvaluationPlan,
    family: str = "",
) -> WorkerRecipe:
    """How workers that measure are made."""
    return worker_recipe(EvaluationWorker, model, dtype, device, benchmark, source, plan=plan, family=family)


def worker_recipe(
    kind: type[BenchmarkWorker],
    model: str,
    dtype: str,
    device: str,
    benchmark: Benchmark,
    source: tuple[str, Path | None, Path | None],
    **more: Any,
) -> WorkerRecipe:
    """How workers are made anywhere. Files are named so that they are found from any folder."""
    name, *files = source
    arguments: dict[str, Any] = {
        "model": model,
        "place": _absolute(model),
        "dtype": dtype,
        "device": device,
        "benchmark": (_absolute(name), *(file and file.absolute() for file in files)),
        "blur": benchmark.blur,
        **more,
    }
    return WorkerRecipe(f"{kind.__module__}:{kind.__name__}", arguments)


def _absolute(name: str) -> str:
    """A name, or the absolute path of the file or folder that it names."""
    return str(Path(name).absolute()) if os.path.exists(name) else name


def _readable(name: str, data: Path | None, samples: Path | None) -> Benchmark | None:
    """The benchmark, if this machine has it."""
    try:
        benchmark = open_benchmark(name, data, samples)
        benchmark.example(0)
    except VTraceError:
        return None
    return benchmark


def catalogue_of(benchmark: Benchmark) -> str:
    """A fingerprint of the examples' names and order, which does not need their pictures."""
    keys = "\n".join(map(benchmark.key, range(benchmark.size)))
    return hashlib.sha256(f"{benchmark.name}\n{keys}".encode()).hexdigest()[:16]
