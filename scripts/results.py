"""Measure all numbers of docs/results, and write its pages: `make results`. Interrupted runs resume; see --help."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from results_page import write_pages, write_study_pages
from results_plan import GROUNDS, MANY_IN_WORDS, RUN_KINDS, SLOWEST, TIMED_STUDIES, ResultsPlan, RunKind

from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import Shard
from vtrace.lvlm.load import load
from vtrace.studies.run import run_study
from vtrace.types import Progress


class RunJob(NamedTuple):
    """A worker's share of the test split."""

    model: str
    kind: RunKind
    worker: int


class StudyJob(NamedTuple):
    """A study of one model."""

    model: str
    study: str


def measure(plan: ResultsPlan, kinds: Sequence[RunKind] = RUN_KINDS) -> None:
    """Measure all runs of these kinds, and all studies, that are missing."""
    grounds = {model: GROUNDS[model] for model in plan.models}
    runs = [
        [RunJob(model, kind, k) for model in grounds for k in range(plan.workers) if grounds[model].measures(kind)]
        for kind in kinds
    ]
    studies = [StudyJob(model, name) for model in grounds for name in plan.studies if grounds[model].measures(name)]
    side_by_side = [job for job in studies if job.study not in TIMED_STUDIES]
    _run_rounds(plan, [*runs, side_by_side])
    for job in studies:
        if job.study in TIMED_STUDIES:
            run_job(plan, job)


def _run_rounds(plan: ResultsPlan, rounds: Sequence[Sequence[RunJob | StudyJob]]) -> None:
    """One round after the other, because all shares of a worker are in one file."""
    if plan.workers == 1:
        for job in chain(*rounds):
            run_job(plan, job)
        return
    # Processes with one thread each: on a CPU, two of them are faster than one with two threads.
    with ProcessPoolExecutor(plan.workers, get_context("spawn"), be_worker) as pool:
        for jobs in rounds:
            for done in [pool.submit(run_job, plan, job) for job in jobs]:
                done.result()


def be_worker() -> None:
    """Use one thread, and exit if the parent process was killed."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_job(plan: ResultsPlan, job: RunJob | StudyJob) -> None:
    folder, ground = plan.work / job.model, GROUNDS[job.model]
    lvlm = load(job.model, dtype=ground.dtype)
    if isinstance(job, StudyJob):
        dev, limit = find_benchmark(f"{ground.benchmark}-dev"), plan.study_limit(job.study)
        report = _reporter(f"{job.model}, {job.study}")
        run_study(job.study, lvlm, dev, folder / "studies", limit=limit, progress=report)
        return
    part, shard = plan.part(job.kind, job.model), Shard(job.worker + 1, plan.workers)
    test = find_benchmark(ground.benchmark)
    methods = EvaluationPlan(
        tuple(part.methods), tuple(ground.targets), system=test.system, max_new_tokens=test.max_new_tokens
    )
    report = _reporter(f"{job.model}, {job.kind} {shard}")
    evaluate(lvlm, test, methods, folder / part.folder, only=part.numbers, shard=shard, progress=report)


def _reporter(title: str) -> Progress:
    began = time.monotonic()

    def report(done: int, total: int, label: str = "") -> None:
        minutes = (time.monotonic() - began) / 60
        print(f"{title}: {done}/{total} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    return report


def main() -> None:
    default = ResultsPlan()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--models", nargs="+", default=list(default.models), choices=list(GROUNDS))
    add("--items", type=int, default=default.items, help="test examples for all methods that are not slow")
    add("--others", type=int, default=default.others, help=f"test examples for the slow ones except {SLOWEST}")
    add("--slowest", type=int, default=default.slowest, help=f"test examples for {SLOWEST}")
    many = f"test examples with at least {MANY_IN_WORDS} evidence objects"
    add("--scattered", type=int, default=default.scattered, help=many)
    add("--study-items", type=int, default=default.study_items, help="dev examples per study")
    add("--studies", nargs="*", default=list(default.studies))
    add("--workers", type=int, default=os.cpu_count(), help="processes, which share the examples")
    add("--work", type=Path, default=default.work, help="folder of runs and studies")
    add("--pages", type=Path, default=default.pages, help="folder of the pages")
    add("--studies-only", action="store_true", help="measure studies alone, and write their pages alone")
    add("--pages-only", action="store_true", help="write the pages from what has been measured")
    args = vars(parser.parse_args())
    studies_only, pages_only = args.pop("studies_only"), args.pop("pages_only")
    plan = ResultsPlan(**args)
    if not pages_only:
        measure(plan, () if studies_only else RUN_KINDS)
    for page in write_study_pages(plan) if studies_only else write_pages(plan):
        print(f"wrote {page}")


if __name__ == "__main__":
    main()
