"""Measure two workers against one: `python bench/scale.py [--json] [--record FILE]`.

Every worker has one thread. One pool has one worker, another has two; all have loaded their model and measured an item
before a clock starts, so the time of starting is not in the ratios. Runs on the two pools alternate, and the ratio is
the median over the repeats. What is timed is the second phase of an evaluation, from the first task that is handed out
to the last row in the store. All runs must have measured the same, to the last digit.

The overhead of the driver is the processor time of its process per item: scheduling, unpickling and storing. Rows per
second are those that the store takes, one item after another, in a transaction each. `bench/cluster.py` reads what
`--record` writes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ["OMP_NUM_THREADS"] = "1"

from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.render import as_json
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.run import evaluate_on
from vtrace.faithfulness.store import Run, RunStore, read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.faithfulness.worker import ItemWork, evaluation_recipe
from vtrace.faithfulness.workers import Workers
from vtrace.scheduling.local_pool import LocalPool
from vtrace.scheduling.ray_pool import RayPool
from vtrace.scheduling.tasks import Event, Finished, Pool, WorkerRecipe

BENCHMARK = "shapes"
PLAN = EvaluationPlan(("vtrace", "ifr", "random"), steps=10)
COUNTS = (1, 2)


class WatchedPool:
    """A pool, and how long its workers took for each item."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.seconds: dict[str, float] = {}
        self._submitted: dict[int, deque[Any]] = defaultdict(deque)
        self.start, self.stop, self.close = pool.start, pool.stop, pool.close

    def submit(self, seat: int, payload: Any) -> None:
        self._submitted[seat].append(payload)
        self.pool.submit(seat, payload)

    def wait(self, seconds: float) -> Sequence[Event]:
        events = self.pool.wait(seconds)
        for event in events:
            if isinstance(event, Finished):
                payload = self._submitted[event.seat].popleft()
                if isinstance(payload, ItemWork):
                    self.seconds[payload.item.key] = event.seconds
        return events


class Replicas:
    """Workers that have started, and the runs on them."""

    def __init__(self, make_pool: Callable[[WorkerRecipe, int], Pool], count: int, folder: Path, items: int):
        self._benchmark = find_benchmark(BENCHMARK)
        recipe = evaluation_recipe("pinhole", "", "cpu", self._benchmark, (BENCHMARK, None, None), PLAN)
        self._folder, self._items = folder, items
        self.pool = WatchedPool(make_pool(recipe, count))
        self.engine = Workers(self.pool, count, self._benchmark, PLAN.responses, lambda *about: None)
        self.times: list[float] = []
        self.driver: list[float] = []
        while self.engine.scheduler.ready < count:  # the first items are there to warm up
            self._run(range(items + len(self.times), items + len(self.times) + 2 * count))
        self.times.clear()
        self.driver.clear()

    def _run(self, numbers: range) -> Path:
        out = self._folder / f"{len(self.times)}-{numbers.start}"
        began: list[float] = []

        def progress(done: int, total: int, label: str = "") -> None:
            if not began and "asking" not in label:
                began.extend((time.perf_counter(), time.process_time()))

        evaluate_on(self.engine, self._benchmark, PLAN, out, only=numbers, progress=progress)
        self.times.append(time.perf_counter() - began[0])
        self.driver.append(time.process_time() - began[1])
        return out

    def run(self) -> Run:
        """One run in a folder of its own."""
        return read_run(self._run(range(self._items)))


def local(recipe: WorkerRecipe, count: int) -> Pool:
    return LocalPool(recipe, count)


def on_ray(recipe: WorkerRecipe, count: int) -> Pool:
    return RayPool(recipe)


def compare(make_pool: Callable[[WorkerRecipe, int], Pool], folder: Path, items: int, repeats: int) -> dict[str, Any]:
    """One worker and two, in turn."""
    with ExitStack() as stack:
        replicas: dict[int, Replicas] = {}
        for count in COUNTS:
            replicas[count] = Replicas(make_pool, count, folder / str(count), items)
            stack.enter_context(closing(replicas[count].pool))
        runs = [one.run() for _ in range(repeats) for one in replicas.values()]
        if len({as_json(tabulate(run)) for run in runs}) > 1:
            raise SystemExit("the runs differ in what they measured")
    one, two = replicas.values()
    tokens = {row["key"]: len(json.loads(row["reply"])) for row in runs[0].rows.item}
    return {
        "ratio": statistics.median(first / second for first, second in zip(one.times, two.times, strict=True)),
        "seconds": {count: statistics.median(some.times) for count, some in replicas.items()},
        "driver_seconds_per_item": statistics.median(two.driver) / items,
        "items": {  # of the last run: tokens of the response, and seconds that the worker took
            count: [(tokens[key], seconds) for key, seconds in some.pool.seconds.items() if key in tokens]
            for count, some in replicas.items()
        },
        "rows": runs[0],
    }


def rows_per_second(run: Run, folder: Path) -> float:
    """How many rows the store takes, with one transaction per item."""
    items = [of_item(run.rows, row["key"]) for row in run.rows.item]
    copies = list(repeated(items, 20))
    with RunStore(folder / "run.sqlite", run.settings) as store:
        began = time.perf_counter()
        for rows in copies:
            store.save(rows)
        seconds = time.perf_counter() - began
    return sum(len(found) for rows in copies for found in vars(rows).values()) / seconds


def of_item(rows: RunRows, key: str) -> RunRows:
    """The rows that one item added to a run."""
    mine = {table: [r for r in found if key in (r.get("key"), r.get("item"))] for table, found in vars(rows).items()}
    return RunRows(**mine)


def repeated(items: Sequence[RunRows], times: int) -> Iterator[RunRows]:
    """The same rows under other names, so that nothing is replaced."""
    for copy in range(times):
        for rows in items:
            renamed = {
                table: [{k: f"{v}-{copy}" if k in ("key", "item") else v for k, v in row.items()} for row in found]
                for table, found in vars(rows).items()
            }
            yield RunRows(**renamed)


def measure(engines: Sequence[str], items: int, repeats: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"items": items, "methods": len(PLAN.methods), "targets": len(PLAN.targets)}
    with tempfile.TemporaryDirectory() as name:
        for engine in engines:
            if engine == "ray":
                import ray

                ray.init(num_cpus=sum(COUNTS), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            found = compare(on_ray if engine == "ray" else local, Path(name) / engine, items, repeats)
            rows = found.pop("rows")
            facts |= {engine: round(found.pop("ratio"), 2), f"{engine}_details": found}
        facts["rows_per_item"] = sum(map(len, vars(rows.rows).values())) / items
        facts["rows_per_second"] = round(rows_per_second(rows, Path(name) / "store"))
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--engines", nargs="+", default=["local", "ray"], choices=["local", "ray"])
    parser.add_argument("--items", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", type=Path, metavar="FILE", help="also write the JSON to this file")
    args = parser.parse_args()
    facts = measure(args.engines, args.items, args.repeats)
    if args.record:
        args.record.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    if args.json:
        print(json.dumps(facts))
        return
    for engine in args.engines:
        details = facts[f"{engine}_details"]
        print(
            f"{engine}: 2 workers {facts[engine]} x 1 worker ({details['seconds'][1]:.1f} s and "
            f"{details['seconds'][2]:.1f} s for {facts['items']} items); the driver works "
            f"{1e3 * details['driver_seconds_per_item']:.1f} ms per item"
        )
    print(f"store: {facts['rows_per_second']} rows per second, in one transaction per item")


if __name__ == "__main__":
    main()
