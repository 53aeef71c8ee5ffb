"""Simulate an evaluation on 1 to 1,024 workers: `python bench/cluster.py [--json]`.

The scheduler is the real one (`vtrace.scheduling.scheduler`); only the workers and the clock are simulated. The work is
9 benchmarks x 4 models x all methods x both targets: 36 runs, each with its own model.

Measured, on the embedded model: what an item costs in forward passes, how items differ, how long the driver works per
item, and how many rows a second the store takes (`bench/measured`, written by `bench/scale.py --record` and by
`bench/cluster.py --measure`). Assumed, and printed with the results: the length of a sequence, the speed of a GPU, the
time to start a worker, how often a worker dies, and how many are slow.

Before anything else, the simulation is held against what `bench/scale.py` measured on one and on two workers.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vtrace.benchmarks.registry import describe_benchmarks, find_benchmark
from vtrace.scheduling.scheduler import Scheduler
from vtrace.scheduling.simulated_pool import SimulatedCosts, SimulatedPool
from vtrace.scheduling.tasks import Task

MEASURED = Path(__file__).parent / "measured"
BENCHMARKS = (
    "mmstar", "mathvista", "mmmu", "mmmu-pro", "mathverse", "visualpuzzles", "hallusionbench", "realworldqa",
    "mathvision",
)  # fmt: skip
MODELS = {  # parameters of the decoder, in billions
    "InternVL3_5-2B": 2.0,
    "InternVL3_5-8B": 8.2,
    "Qwen3-VL-4B-Instruct": 4.0,
    "Qwen3-VL-8B-Instruct": 8.2,
}
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SEED = 0


@dataclass(frozen=True)
class Assumptions:
    """What is not measured here, because there is no GPU and no cluster here."""

    tokens: int = 1500  # of prompt and response, on average
    teraflops: float = 150.0  # that a GPU reaches in a forward pass
    start_seconds: float = 120.0  # of a worker: libraries and weights
    hours_between_failures: float = 100.0  # of one worker
    slow_workers: float = 0.02  # share of workers that are slow,
    slowdown: float = 3.0  # and by which factor


@dataclass(frozen=True)
class Simulated:
    """One row of the result."""

    workers: int
    hours: float
    worker_hours: float
    efficiency: float  # share of worker hours that went into items
    driver_busy: float  # share of the time that the driver worked


def measure_item(number: int = 0) -> dict[str, Any]:
    """What an item with all methods and both targets costs, in forward passes: processor time on one thread."""
    import torch

    import vtrace
    from vtrace.faithfulness.freeze import freeze_batch
    from vtrace.faithfulness.measurement import ItemToMeasure, evaluate_item
    from vtrace.faithfulness.plan import EvaluationPlan
    from vtrace.faithfulness.rows import TargetAndMethod
    from vtrace.faithfulness.store import FrozenResponse
    from vtrace.methods.registry import METHODS
    from vtrace.tracing.generate import retrace
    from vtrace.tracing.prompt import trace_inputs
    from vtrace.tracing.reply import Reply

    torch.set_num_threads(1)
    lvlm, benchmark = vtrace.load("pinhole"), find_benchmark("shapes")
    plan = EvaluationPlan(tuple(METHODS), ("response", "answer"))
    (row,) = freeze_batch(lvlm, benchmark, plan.responses, [number]).response
    frozen = FrozenResponse(row["asked"], json.loads(row["reply"]), row["finish"])
    trace = retrace(lvlm, benchmark.example(number), Reply(frozen.ids, frozen.finish))
    inputs = trace_inputs(lvlm, trace)
    passes = []
    with torch.no_grad():
        for _ in range(30):
            began = time.process_time()
            lvlm.model(**inputs, use_cache=False)
            passes.append(time.process_time() - began)
    wanted = tuple(TargetAndMethod(target, name) for target in plan.targets for name in plan.methods)
    began = time.process_time()
    rows = evaluate_item(lvlm, benchmark, plan, ItemToMeasure(number, row["key"], frozen, wanted, again=False))
    seconds, one = time.process_time() - began, statistics.median(passes)
    return {
        "tokens": len(trace),
        "methods": len(METHODS),
        "pass_seconds": one,
        "item_seconds": seconds,
        "passes": seconds / one,
        "rows": sum(map(len, vars(rows).values())),
    }


def simulate(
    seconds: Sequence[float], workers: int, costs: SimulatedCosts, expected: Sequence[float] = ()
) -> SimulatedPool:
    """Run the real scheduler over these items. `expected` is what it believes that they cost."""
    pool = SimulatedPool(costs, SEED)
    believed = expected or seconds
    tasks = [Task(str(k), own, cost) for k, (own, cost) in enumerate(zip(seconds, believed, strict=True))]
    done = sum(1 for _ in Scheduler(pool, workers).run(tasks))
    assert done == len(tasks), "the simulation lost items"
    return pool


def check(scale: dict[str, Any]) -> list[dict[str, Any]]:
    """Predicted and measured seconds of one and of two workers. The costs of items are those of one worker for one, and
    those of two for two, which compete for the memory of this machine."""
    found = []
    for engine in ("local", "ray"):
        details = scale[f"{engine}_details"]
        for count, items in details["items"].items():
            costs = SimulatedCosts(driver=details["driver_seconds_per_item"])
            tokens, seconds = zip(*items, strict=True)
            predicted = simulate(seconds, int(count), costs, expected=tokens).clock
            measured = details["seconds"][count]
            off = predicted / measured - 1
            found.append(dict(engine=engine, workers=int(count), predicted=predicted, measured=measured, off=off))
    return found


def workload(assumed: Assumptions, passes: float, spread: Sequence[float]) -> list[list[float]]:
    """Seconds of the items of each run, a model on a benchmark. Items differ as they do on the embedded model."""
    sizes = {facts["name"]: facts["size"] for facts in describe_benchmarks()}
    chance, runs = random.Random(SEED), []
    for billions in MODELS.values():
        one_pass = 2 * billions * 1e9 * assumed.tokens / (assumed.teraflops * 1e12)
        runs += [[passes * one_pass * chance.choice(spread) for _ in range(sizes[name])] for name in BENCHMARKS]
    return runs


def one_after_another(runs: Sequence[Sequence[float]], workers: int, costs: SimulatedCosts) -> Simulated:
    """All workers do the first run, then the second."""
    pools = [simulate(seconds, workers, costs) for seconds in runs]
    return summary(runs, workers, sum(pool.clock for pool in pools), sum(pool.busy for pool in pools))


def side_by_side(runs: Sequence[Sequence[float]], workers: int, costs: SimulatedCosts) -> Simulated:
    """Every run has its own driver and its share of the workers, at least one."""
    whole = sum(map(sum, runs))
    shares = [max(1, round(workers * sum(seconds) / whole)) for seconds in runs]
    pools = [simulate(seconds, share, costs) for seconds, share in zip(runs, shares, strict=True)]
    return summary(runs, workers, max(pool.clock for pool in pools), max(pool.busy for pool in pools))


def summary(runs: Sequence[Sequence[float]], workers: int, seconds: float, busy: float) -> Simulated:
    efficiency = sum(map(sum, runs)) / (seconds * workers)
    return Simulated(workers, seconds / 3600, seconds * workers / 3600, efficiency, busy / seconds)


def predict(scale: dict[str, Any], item: dict[str, Any], assumed: Assumptions) -> dict[str, Any]:
    """Everything that is printed."""
    one = [seconds for _, seconds in scale["local_details"]["items"]["1"]]
    spread = [seconds * len(one) / sum(one) for seconds in one]
    driver = scale["local_details"]["driver_seconds_per_item"] + item["rows"] / scale["rows_per_second"]
    costs = SimulatedCosts(
        assumed.start_seconds, driver, 3600 * assumed.hours_between_failures, assumed.slow_workers, assumed.slowdown
    )
    few_rows = driver + (scale["rows_per_item"] - item["rows"]) / scale["rows_per_second"]
    runs = workload(assumed, item["passes"], spread)
    mean = sum(map(sum, runs)) / sum(map(len, runs))
    short = [spread[k % len(spread)] for k in range(20_000)]  # seconds: items of about one second
    return {
        "check": check(scale),
        "assumed": asdict(assumed),
        "runs": len(runs),
        "items": sum(map(len, runs)),
        "passes_per_item": item["passes"],
        "seconds_per_item": mean,
        "driver_seconds_per_item": driver,
        "workers_that_one_driver_serves": mean / driver,
        "one_after_another": [asdict(one_after_another(runs, workers, costs)) for workers in WORKERS],
        "side_by_side": [asdict(side_by_side(runs, workers, costs)) for workers in WORKERS if workers > len(runs)],
        "items_of_one_second": [
            asdict(one_after_another([short], workers, replace(costs, driver=few_rows))) for workers in WORKERS
        ],
    }


def print_rows(title: str, rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n{title}\n\n| workers | hours | GPU hours | spent on items | driver busy |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['workers']:,} | {row['hours']:,.1f} | {row['worker_hours']:,.0f} | {row['efficiency']:.0%} | "
            f"{row['driver_busy']:.1%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--measure", action="store_true", help="measure what an item costs, and record it")
    for name, value in asdict(Assumptions()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help="assumed")
    args = vars(parser.parse_args())
    as_json, measure = args.pop("json"), args.pop("measure")
    if measure:
        (MEASURED / "item.json").write_text(json.dumps(measure_item(), indent=1) + "\n", "utf-8")
    scale, item = (json.loads((MEASURED / f"{name}.json").read_text("utf-8")) for name in ("scale", "item"))
    found = predict(scale, item, Assumptions(**args))
    if as_json:
        print(json.dumps(found))
        return
    for one in found["check"]:
        print(
            f"{one['engine']}, {one['workers']} workers: predicted {one['predicted']:.1f} s, measured "
            f"{one['measured']:.1f} s ({one['off']:+.0%})"
        )
    print(f"\nAssumed: {', '.join(f'{name} {value:g}' for name, value in found['assumed'].items())}")
    print(
        f"{found['runs']} runs, {found['items']:,} items of {found['passes_per_item']:,.0f} forward passes, which are "
        f"{found['seconds_per_item']:.0f} s on a GPU; the driver works {1e3 * found['driver_seconds_per_item']:.1f} ms "
        f"per item and serves {found['workers_that_one_driver_serves']:,.0f} workers"
    )
    print_rows("One run after another", found["one_after_another"])
    print_rows("All runs side by side, each with its own driver", found["side_by_side"])
    print_rows("One run with 20,000 items of one second", found["items_of_one_second"])


if __name__ == "__main__":
    main()
