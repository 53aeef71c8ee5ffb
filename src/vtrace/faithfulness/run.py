"""Evaluate: freeze responses, then model × benchmark × methods × targets × settings, item by item, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError
from ..lvlm.model import Lvlm
from ..tracing.endpoint import Endpoint
from ..types import Progress, silent
from .engine import Engine, ThisProcess
from .measurement import ItemToMeasure
from .plan import EvaluationPlan
from .rows import LeftOutRow, RunRows, TargetAndMethod
from .store import WHOLE_RUN, RunStore, Shard, run_file
from .traces import FrozenTraces, read_traces


def evaluate(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: EvaluationPlan,
    out: Path,
    *,
    limit: int | None = None,
    shard: Shard = WHOLE_RUN,
    only: Sequence[int] | None = None,
    traces: Path | None = None,
    endpoint: Endpoint | None = None,
    progress: Progress = silent,
) -> Path:
    """Measure what is missing in the run at `out`, in the order of the benchmark, and return its file.

    Args:
        lvlm: the model, from `load`.
        benchmark: where the examples come from.
        plan: what is measured.
        out: the folder of the run.
        limit: evaluate only the first `limit` examples.
        shard: which of them, if several machines share the work.
        only: evaluate the examples with these numbers, instead of a limit.
        traces: measure these frozen responses, and only these; by default, responses are frozen in `out` first.
        endpoint: the server that generates the responses, instead of `lvlm`.
        progress: receives the number of finished items.
    """
    return evaluate_on(
        ThisProcess(lvlm, benchmark, plan, out, endpoint),
        benchmark,
        plan,
        out,
        limit=limit,
        shard=shard,
        only=only,
        traces=traces,
        progress=progress,
    )


def evaluate_on(
    engine: Engine,
    benchmark: Benchmark,
    plan: EvaluationPlan,
    out: Path,
    *,
    limit: int | None = None,
    shard: Shard = WHOLE_RUN,
    only: Sequence[int] | None = None,
    traces: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """As `evaluate`, wherever the model runs. This process is the only one that writes to the run's file."""
    plan.check()
    frozen = None if traces is None else read_traces(traces)
    mine = chosen_items(benchmark, limit, shard, only)
    if frozen is not None:
        frozen.check(engine.model, benchmark, plan.system)
        mine = asked_items(frozen, benchmark, mine)
    with RunStore(run_file(out, shard), plan.settings(engine.model, benchmark)) as store:
        store.save_lost(benchmark.lost)
        missing = {index: wanted for index in mine if (wanted := missing_pairs(store, benchmark.key(index), plan))}
        if frozen is None and (unasked := [n for n in missing if store.frozen(benchmark.key(n)) is None]):
            engine.freeze(out, unasked, shard, progress)
            frozen = read_traces(out)
        done = len(mine) - len(missing)
        items = []
        for index, wanted in missing.items():
            key = benchmark.key(index)
            if before := store.frozen(key):
                items.append(ItemToMeasure(index, key, before, wanted, again=True))
            elif frozen and (response := frozen.responses.get(key)):
                items.append(ItemToMeasure(index, key, response, wanted, again=False))
            elif frozen:
                store.save(RunRows(left_out=[LeftOutRow(item=key, reason=frozen.left_out[key])]))
                done += 1

        def begin(label: str) -> None:
            progress(done, len(mine), label)

        for rows in engine.measure(items, begin):
            store.save(rows)
            done += 1
        progress(len(mine), len(mine))
        return store.path


def chosen_items(
    benchmark: Benchmark, limit: int | None = None, shard: Shard = WHOLE_RUN, only: Sequence[int] | None = None
) -> Sequence[int]:
    """Numbers of the examples that a shard deals with: of the first `limit`, or of those with the numbers `only`."""
    shard.check()
    size = benchmark.size if limit is None else min(limit, benchmark.size)
    return (range(size) if only is None else only)[shard.number - 1 :: shard.count]


def asked_items(frozen: FrozenTraces, benchmark: Benchmark, numbers: Sequence[int]) -> list[int]:
    """Those of the examples that were asked."""
    known = frozen.responses.keys() | frozen.left_out.keys()
    if found := [number for number in numbers if benchmark.key(number) in known]:
        return found
    raise InputError(f"{frozen.place} has no response to any of these {len(numbers)} examples of {benchmark.name}")


def missing_pairs(store: RunStore, key: str, plan: EvaluationPlan) -> tuple[TargetAndMethod, ...]:
    """Targets and methods that are wanted for an item and not measured yet."""
    measured = store.done(key)
    pairs = map(TargetAndMethod._make, product(plan.targets, plan.methods))
    return tuple(pair for pair in pairs if pair not in measured)
