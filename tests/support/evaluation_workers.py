"""Evaluations on real workers, and workers that are not like the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

import vtrace
from support.evaluating import PLAN
from support.waiting import wait_until
from vtrace.benchmarks.benchmark import Benchmark
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.render import as_json
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.faithfulness.worker import EvaluationWorker, evaluation_recipe
from vtrace.faithfulness.workers import Workers
from vtrace.scheduling.tasks import Pool, WorkerRecipe

BENCHMARK = "shapes-dev"
ITEMS = 6  # of the evaluations
OTHER_WEIGHTS = "VTRACE_TEST_OTHER_WEIGHTS"


def recipe_of(benchmark: Benchmark | None = None, source: Path | None = None) -> WorkerRecipe:
    """Workers with the embedded model, and with the plan of all small evaluations."""
    name = str(source) if source else BENCHMARK
    return evaluation_recipe("pinhole", "", "", benchmark or find_benchmark(BENCHMARK), (name, None, None), PLAN)


@contextmanager
def opened(pool: Pool, count: int, benchmark: Benchmark | None = None, notice: Any = None) -> Iterator[Workers]:
    """An engine whose workers end with the block."""
    try:
        yield Workers(
            pool, count, benchmark or find_benchmark(BENCHMARK), PLAN.responses, notice or (lambda *about: None)
        )
    finally:
        pool.close()


def table_of(place: Path) -> str:
    """The whole table, to the last digit."""
    return as_json(tabulate(read_run(place)))


def other_weights(marker: str, **arguments: Any) -> EvaluationWorker:
    """A worker of a seat with OTHER_WEIGHTS has other weights, and starts after the others."""
    worker = EvaluationWorker(**arguments)
    if not os.environ.get(OTHER_WEIGHTS):
        Path(marker).touch()
        return worker
    wait_until(Path(marker).exists, "a worker with the right weights")
    with torch.no_grad():
        next(worker.lvlm.model.parameters()).add_(1.0)
    worker.greeting = replace(worker.greeting, revision=worker.lvlm.revision)
    return worker


def evaluation(out: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "vtrace.cli", "evaluate", "--benchmark", "shapes-dev", "--out", str(out)]
    command += ["--methods", ",".join(PLAN.methods), "--target", ",".join(PLAN.targets), "--steps", str(PLAN.steps)]
    return [*command, "--limit", str(ITEMS), *options]


class Stopped(NamedTuple):
    """How a driver ended."""

    code: int
    workers: list[int]  # processes
    said: str  # on stderr


def stopped(command: list[str], measured: int, number: signal.Signals) -> Stopped:
    """Send a signal to a driver after it has measured this many items."""
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        workers = []
        for line in driver.stdout:
            event = json.loads(line)
            if event["event"] == "worker" and event["state"] == "ready":
                workers.append(int(event["reason"].split()[1]))
            if event["event"] == "progress" and "asking" not in event["label"] and event["done"] >= measured:
                driver.send_signal(number)
                break
        said = driver.stderr.read()
        driver.stdout.read()
    return Stopped(driver.returncode, workers, said)


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def without_weights(folder: Path) -> Path:
    """A model whose configuration can be read and whose weights are missing."""
    folder.mkdir()
    shutil.copy(Path(vtrace.__file__).parent / "pinhole" / "checkpoint" / "config.json", folder)
    return folder
