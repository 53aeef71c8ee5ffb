"""The cost of attribution methods in bare forward passes: `python bench/methods.py [--json]`.

The decoder and the clock are those of bench/overhead.py. Every method runs alone, from a fresh instrumented
pass, so nothing is shared; targets are the whole response of 256 tokens, or an answer of 5. "instrumented" is the pass
that vtrace folds into its matrix, without the rest of vtrace; ordered paths are also compared with it. Peak memory is
that of a fresh process, relative to one that does a bare pass.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial

import torch
from overhead import CLOCKS, RESPONSE, Subject, high_water_mark

from vtrace.methods.registry import keeps_layers, run_method
from vtrace.methods.session import TraceSession
from vtrace.types import Target, Trace

ANSWER = 5  # tokens
INSTRUMENTED, ORDERED = "instrumented", "vtrace-ordered"
ORDERED_LIMIT = 1.15  # of the instrumented pass of vtrace
MEMORY_LIMITS = {ORDERED: 1.1}  # of a bare pass
LIMITS = {"rollout": 2, "flowtracer": 2, "ifr": 3, "flashtrace": 4, "attnlrp": 6}  # passes we hold ourselves to
ON_ANSWER = ("ifr",)
ONE_PASS = ("vtrace", ORDERED, "rollout", "ifr", "flashtrace", "flowtracer", "attention", "cage")
FORWARD_ONLY = (*ONE_PASS, "alti", "alti-logit")
TIMED = (INSTRUMENTED, *ONE_PASS, "attnlrp", "gradient", "chefer")
EVERY = tuple(dict.fromkeys((*TIMED, *FORWARD_ONLY)))


def run(name: str, subject: Subject, trace: Trace) -> None:
    if name == INSTRUMENTED:
        subject.instrumented()
        return
    size = ANSWER if name in ON_ANSWER else RESPONSE
    target = Target("target", tuple(range(len(trace) - size, len(trace))))
    session = TraceSession(subject.seam, trace, subject.arguments, keep_layers=keeps_layers([name]))
    run_method(name, session, target)


def measure(names: Sequence[str], tokens: int, repeats: int, clock: Callable[[], float]) -> list[dict]:
    subject = Subject(tokens)
    trace = subject.trace
    ratios: dict[str, list[float]] = {name: [] for name in names}
    counts: dict[str, int] = {}
    for turn in range(repeats + 1):
        for name in names:  # a bare pass beside every method: what slows the machine down slows both
            if not turn:  # the first round warms up
                counts[name] = subject.count_passes(partial(run, name, subject, trace))
                continue
            began = clock()
            subject.bare()
            middle = clock()
            run(name, subject, trace)
            ratios[name].append((clock() - middle) / (middle - began))
        print(f"round {turn} of {repeats}", file=sys.stderr)
    return [
        {
            "method": name, "tokens": tokens, "target": ANSWER if name in ON_ANSWER else RESPONSE,
            "passes": round(statistics.median(ratios[name]), 2), "forward_passes": counts[name],
            "limit": LIMITS.get(name),
        }
        for name in names
    ]  # fmt: skip


def peak(tokens: int, name: str) -> int:
    command = [sys.executable, __file__, "--peak", name, "--memory-tokens", str(tokens)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tokens", type=int, default=1024, help="for times")
    parser.add_argument("--memory-tokens", type=int, default=2048, help="for memory; 0 leaves it out")
    parser.add_argument("--methods", nargs="+", choices=EVERY, default=EVERY)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        subject = Subject(args.memory_tokens)
        subject.bare() if args.peak == "bare" else run(args.peak, subject, subject.trace)
        print(high_water_mark())
        return
    timed = [name for name in args.methods if name in TIMED]
    times = measure(timed, args.tokens, args.repeats, CLOCKS[args.clock]) if args.repeats else []
    memory: dict[str, float] = {}
    if args.memory_tokens:
        bare = peak(args.memory_tokens, "bare")
        for name in (name for name in args.methods if name in FORWARD_ONLY):
            memory[name] = round(peak(args.memory_tokens, name) / bare, 2)
            print(f"{name}: peak memory {memory[name]:.2f}x", file=sys.stderr)
    passes = {row["method"]: row["passes"] for row in times}
    beside = round(passes[ORDERED] / passes[INSTRUMENTED], 3) if {ORDERED, INSTRUMENTED} <= passes.keys() else None
    if args.json:
        found = {
            "times": times, "memory_tokens": args.memory_tokens, "memory": memory, "memory_limits": MEMORY_LIMITS,
            "ordered_by_instrumented": beside, "ordered_by_instrumented_limit": ORDERED_LIMIT,
        }  # fmt: skip
        print(json.dumps(found, indent=1))
        return
    print(f"{torch.get_num_threads()} threads; passes at {args.tokens} tokens, memory at {args.memory_tokens}")
    print(f"{'method':>14} {'target':>7} {'passes':>7} {'limit':>6}")
    for row in times:
        print(f"{row['method']:>14} {row['target']:7d} {row['passes']:6.2f}x {row['limit'] or '':>6}")
    for name, ratio in memory.items():
        limit = f" (limit {MEMORY_LIMITS[name]})" if name in MEMORY_LIMITS else ""
        print(f"{name:>14} peak memory {ratio:5.2f}x of a bare pass{limit}")
    if beside:
        print(f"ordered paths take {beside:.2f}x the instrumented pass of vtrace (limit {ORDERED_LIMIT})")


if __name__ == "__main__":
    main()
