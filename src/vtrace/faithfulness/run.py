"""Evaluate: model × benchmark × methods × targets × settings, item by item, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError
from ..lvlm.model import Lvlm
from ..system.error_log import record_bug
from ..types import Progress, silent
from .item import ChangedExampleError, freeze_item, measure_item
from .plan import EvaluationPlan
from .rows import FailureRow, LeftOutRow, RunRows, TargetAndMethod
from .store import WHOLE_RUN, FrozenResponse, RunStore, Shard, run_file


def evaluate(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: EvaluationPlan,
    out: Path,
    *,
    limit: int | None = None,
    shard: Shard = WHOLE_RUN,
    only: Sequence[int] | None = None,
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
        progress: receives the number of finished items.
    """
    plan.check()
    shard.check()
    size = benchmark.size if limit is None else min(limit, benchmark.size)
    mine = (range(size) if only is None else only)[shard.number - 1 :: shard.count]
    with RunStore(run_file(out, shard), plan.settings(lvlm, benchmark)) as store:
        store.save_lost(benchmark.lost)
        missing = {index: wanted for index in mine if (wanted := _missing(store, benchmark.key(index), plan))}
        for done, (index, wanted) in enumerate(missing.items(), len(mine) - len(missing)):
            key = benchmark.key(index)
            progress(done, len(mine), key)
            store.save(_rows_of_item(lvlm, benchmark, plan, index, store.frozen(key), wanted, out))
        progress(len(mine), len(mine))
        return store.path


def _missing(store: RunStore, key: str, plan: EvaluationPlan) -> list[TargetAndMethod]:
    """Targets and methods that are wanted for an item and not measured yet."""
    measured = store.done(key)
    pairs = map(TargetAndMethod._make, product(plan.targets, plan.methods))
    return [pair for pair in pairs if pair not in measured]


def _rows_of_item(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: EvaluationPlan,
    index: int,
    before: FrozenResponse | None,
    wanted: list[TargetAndMethod],
    folder: Path,
) -> RunRows:
    """What was measured. If nothing could be, the item is left out with the reason; if part of it was measured earlier,
    the rest is recorded as failed. The traceback of an unexpected error goes to a log in the folder of the run."""
    key = benchmark.key(index)
    try:
        item = freeze_item(lvlm, benchmark, plan, index, before)
        return measure_item(lvlm, plan, item, plan.radius(benchmark), wanted)
    except ChangedExampleError:
        raise
    except VTraceError as error:
        reason = str(error)
    except Exception as error:  # a bug of ours on one item must not stop the run
        reason = record_bug(error, folder, f"item {key}")
    if before is None:
        return RunRows(left_out=[LeftOutRow(item=key, reason=reason)])
    return RunRows(failure=[FailureRow(item=key, target=t, method=m, reason=reason) for t, m in wanted])
