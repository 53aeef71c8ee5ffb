"""As many right answers as wrong ones, from a model that may seldom be wrong."""

from __future__ import annotations

from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..benchmarks.grading import CORRECT, grade
from ..errors import InputError, VTraceError, running
from ..lvlm.model import Lvlm
from ..tracing.generate import trace
from ..types import Progress
from .journal import Journal

PATIENCE = 50  # examples that are asked, at most, for each one that is wanted


def balanced(lvlm: Lvlm, benchmark: Benchmark, limit: int, folder: Path, progress: Progress) -> list[int]:
    """Numbers of the first right and the first wrong answers, half of `limit` each or as many as were found.

    Verdicts are kept in `folder`, so that nothing is asked twice.
    """
    asked = {"model": lvlm.name, "revision": lvlm.revision, "dtype": lvlm.dtype, "benchmark": benchmark.name}
    wanted, most = {True: limit // 2, False: -(-limit // 2)}, min(PATIENCE * limit, benchmark.size)
    found: dict[bool, list[int]] = {True: [], False: []}
    with Journal(folder / "verdicts.jsonl", asked) as journal:
        for index in range(most):
            if all(len(found[side]) == wanted[side] for side in wanted):
                break
            key = benchmark.key(index)
            progress(index, most, key)
            side = journal.known.get(key)
            if side is None and (side := _is_right(lvlm, benchmark, index)) is not None:
                journal.add(key, side)
            if side is not None and len(found[side]) < wanted[side]:
                found[side].append(index)
    chosen = sorted(found[True] + found[False])
    if not chosen:
        raise InputError(f"none of {most} answers to {benchmark.name} could be graded right or wrong")
    return chosen


def _is_right(lvlm: Lvlm, benchmark: Benchmark, index: int) -> bool | None:
    """None where nobody can say, or where the item has to be left out."""
    try:
        example = benchmark.example(index)
        with running("the response"):
            verdict = grade(example, trace(lvlm, example).answer_text)
    except VTraceError:
        return None
    return CORRECT[verdict] if verdict else None
