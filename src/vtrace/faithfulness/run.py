"""Evaluate: freeze responses, then model × benchmark × methods × targets × settings, item by item, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError, VTraceError
from ..lvlm.model import Lvlm
from ..tracing.endpoint import Endpoint
from ..types import Progress, silent
from .freeze import freeze_responses
from .item import ChangedExampleError, freeze_item, measure_item
from .plan import EvaluationPlan
from .rows import FailureRow, LeftOutRow, RunRows, TargetAndMethod
from .store import WHOLE_RUN, FrozenResponse, RunStore, Shard, run_file
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
    plan.check()
    frozen = None if traces is None else read_traces(traces)
    mine = chosen_items(benchmark, limit, shard, only)
    if frozen is not None:
        frozen.check(lvlm, benchmark, plan.system)
        mine = _with_response(frozen, benchmark, mine)
    with RunStore(run_file(out, shard), plan.settings(lvlm, benchmark)) as store:
        store.save_lost(benchmark.lost)
        missing = {index: wanted for index in mine if (wanted := missing_pairs(store, benchmark.key(index), plan))}
        if frozen is None and (unasked := [n for n in missing if store.frozen(benchmark.key(n)) is None]):
            asking = plan.responses
            freeze_responses(lvlm, benchmark, asking, out, unasked, endpoint=endpoint, shard=shard, progress=progress)
            frozen = read_traces(out)
        for done, (index, wanted) in enumerate(missing.items(), len(mine) - len(missing)):
            key = benchmark.key(index)
            progress(done, len(mine), key)
            if before := store.frozen(key):
                store.save(evaluate_item(lvlm, benchmark, plan, index, before, wanted, again=True))
            elif frozen and (response := frozen.responses.get(key)):
                store.save(evaluate_item(lvlm, benchmark, plan, index, response, wanted))
            elif frozen:
                store.save(RunRows(left_out=[LeftOutRow(item=key, reason=frozen.left_out[key])]))
        progress(len(mine), len(mine))
        return store.path


def chosen_items(
    benchmark: Benchmark, limit: int | None = None, shard: Shard = WHOLE_RUN, only: Sequence[int] | None = None
) -> Sequence[int]:
    """Numbers of the examples that a shard deals with: of the first `limit`, or of those with the numbers `only`."""
    shard.check()
    size = benchmark.size if limit is None else min(limit, benchmark.size)
    return (range(size) if only is None else only)[shard.number - 1 :: shard.count]


def _with_response(frozen: FrozenTraces, benchmark: Benchmark, numbers: Sequence[int]) -> list[int]:
    """The examples that were asked."""
    known = frozen.responses.keys() | frozen.left_out.keys()
    if found := [number for number in numbers if benchmark.key(number) in known]:
        return found
    raise InputError(f"{frozen.place} has no response to any of these {len(numbers)} examples of {benchmark.name}")


def missing_pairs(store: RunStore, key: str, plan: EvaluationPlan) -> list[TargetAndMethod]:
    """Targets and methods that are wanted for an item and not measured yet."""
    measured = store.done(key)
    pairs = map(TargetAndMethod._make, product(plan.targets, plan.methods))
    return [pair for pair in pairs if pair not in measured]


def evaluate_item(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: EvaluationPlan,
    index: int,
    frozen: FrozenResponse,
    wanted: Sequence[TargetAndMethod],
    again: bool = False,
) -> RunRows:
    """What was measured. If nothing could be, the item is left out with the reason; if the run already has
    the item and measures it `again`, what is wanted is recorded as failed."""
    key = benchmark.key(index)
    try:
        item = freeze_item(lvlm, benchmark, plan, index, frozen)
        return measure_item(lvlm, plan, item, plan.radius(benchmark), wanted)
    except ChangedExampleError:
        raise
    except VTraceError as error:
        reason = str(error)
    if again:
        return RunRows(failure=[FailureRow(item=key, target=t, method=m, reason=reason) for t, m in wanted])
    return RunRows(left_out=[LeftOutRow(item=key, reason=reason)])
