"""The worker's side of an evaluation: load the model, open the benchmark, and do what the driver asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmarks.benchmark import Benchmark
from ..benchmarks.registry import open_benchmark
from ..errors import VTraceError
from ..lvlm.load import find_dtype, load
from ..scheduling.tasks import WorkerRecipe
from ..types import Example
from .freeze import freeze_batch
from .item import ChangedExampleError
from .measurement import ItemToMeasure, evaluate_item
from .plan import EvaluationPlan
from .rows import RunRows, TraceRows


@dataclass(frozen=True)
class WorkerGreeting:
    """What the driver checks before a worker gets tasks."""

    name: str
    revision: str
    dtype: str
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
class Measurement:
    """An item that is measured."""

    item: ItemToMeasure
    sent: Mapping[int, SentExample] = field(default_factory=dict)


class ChangedExample(NamedTuple):
    """An answer that ends the run: the example is not the one that was asked."""

    reason: str


class EvaluationWorker:
    """One replica of the model.

    Args:
        model: its name as given, which the run records.
        place: where it is loaded from.
        dtype: of its weights; empty for the default.
        device: where it runs; empty for the default.
        benchmark: name, data and samples of `open_benchmark`.
        blur: of the benchmark.
        plan: what is measured.
    """

    def __init__(
        self,
        model: str,
        place: str,
        dtype: str,
        device: str,
        benchmark: tuple[str, Path | None, Path | None],
        blur: float,
        plan: EvaluationPlan,
    ):
        self._plan, self._blur = plan, blur
        self._benchmark = _readable(*benchmark)
        loaded = load(place, dtype=find_dtype(dtype), device=device or None)
        self._lvlm = replace(loaded, name=loaded.name.replace(place, model))
        catalogue = catalogue_of(self._benchmark) if self._benchmark else ""
        self.greeting = WorkerGreeting(self._lvlm.name, self._lvlm.revision, self._lvlm.dtype, catalogue)

    def run(self, payload: BatchToFreeze | Measurement) -> TraceRows | RunRows | ChangedExample:
        benchmark = self._sent(payload.sent) if payload.sent else self._benchmark
        assert benchmark is not None, "examples are sent to a worker that cannot read them"
        if isinstance(payload, BatchToFreeze):
            return freeze_batch(self._lvlm, benchmark, self._plan.responses, payload.numbers)
        try:
            return evaluate_item(self._lvlm, benchmark, self._plan, payload.item)
        except ChangedExampleError as error:
            return ChangedExample(str(error))

    def _sent(self, sent: Mapping[int, SentExample]) -> Benchmark:
        return Benchmark("", len(sent), lambda n: sent[n].key, lambda n: sent[n].example, self._blur)


def evaluation_recipe(
    model: str,
    dtype: str,
    device: str,
    benchmark: Benchmark,
    source: tuple[str, Path | None, Path | None],
    plan: EvaluationPlan,
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
        "plan": plan,
    }
    return WorkerRecipe(f"{__name__}:{EvaluationWorker.__name__}", arguments)


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
