"""The second phase of an evaluation, for one item: what is to be measured, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError
from ..lvlm.model import Lvlm
from ..system.error_log import record_bug
from .item import ChangedExampleError, freeze_item, measure_item
from .plan import EvaluationPlan
from .rows import FailureRow, LeftOutRow, RunRows, TargetAndMethod
from .store import FrozenResponse


@dataclass(frozen=True)
class AnsweredItem:
    """An example by number and key, with its frozen response."""

    number: int
    key: str
    frozen: FrozenResponse


@dataclass(frozen=True)
class ItemToMeasure(AnsweredItem):
    """The same, and what is missing about it in a run."""

    wanted: tuple[TargetAndMethod, ...]
    again: bool  # the run has the item already, and other results about it


def evaluate_item(
    lvlm: Lvlm, benchmark: Benchmark, plan: EvaluationPlan, item: ItemToMeasure, folder: Path | None = None
) -> RunRows:
    """What was measured, or why nothing could be. The traceback of a bug goes to a log in the folder of the run."""
    try:
        example = freeze_item(lvlm, benchmark, plan.responses, item.number, item.frozen)
        return measure_item(lvlm, plan, example, plan.radius(benchmark), item.wanted)
    except ChangedExampleError:
        raise
    except VTraceError as error:
        return not_measured(item, str(error))
    except Exception as error:  # a bug of ours on one item must not stop the run
        return not_measured(item, record_bug(error, folder, f"item {item.key}"))


def not_measured(item: ItemToMeasure, reason: str) -> RunRows:
    """The item is left out; if the run has other results about it, those that were wanted have failed."""
    if not item.again:
        return RunRows(left_out=[LeftOutRow(item=item.key, reason=reason)])
    return RunRows(
        failure=[FailureRow(item=item.key, target=t, method=m, reason=reason) for t, m in item.wanted],
    )
