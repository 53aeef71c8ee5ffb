"""Tokens a second, one response at a time and in batches: `python bench/generate.py [--json]`.

The embedded model answers questions of the Shapes test split: the first ones of all tasks, and the first ones whose
gold reasoning takes several steps, because pictures and prompts cost the same in a batch and only tokens become
cheaper. Pictures are processed beforehand; encoding them and reading the prompt is part of the time. Ratios are medians
over interleaved rounds in one process. `--clock processor` compares processor time instead of time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch

from vtrace.benchmarks.registry import SHAPES_SIZE, shapes_example
from vtrace.benchmarks.shapes.sample import Sample, sample
from vtrace.lvlm.load import load
from vtrace.lvlm.model import Lvlm
from vtrace.tracing.batch import Asked, generate_replies
from vtrace.tracing.defaults import GENERATED_TOGETHER, MAX_NEW_TOKENS, SYSTEM_PROMPT
from vtrace.tracing.prompt import process_prompt
from vtrace.tracing.reply import Reply, generate_reply

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
SEVERAL_STEPS = 40  # words of the gold response


def timed(clock: Callable[[], float], work: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    began = clock()
    found = work()
    return clock() - began, found


def measure(
    lvlm: Lvlm, samples: Sequence[Sample], batch: int, repeats: int, clock: Callable[[], float]
) -> dict[str, Any]:
    asked = [Asked(process_prompt(lvlm, shapes_example(s), SYSTEM_PROMPT), MAX_NEW_TOKENS) for s in samples]
    alone: list[float] = []
    together: list[float] = []
    for _ in range(repeats):
        seconds, expected = timed(clock, lambda: [generate_reply(lvlm, *one) for one in asked])
        alone.append(seconds)
        seconds, found = timed(clock, lambda: generate_replies(lvlm, asked, batch))
        together.append(seconds)
    tokens = sum(len(reply.ids) for reply in expected)
    same = sum(isinstance(b, Reply) and a == b for a, b in zip(expected, found, strict=True))
    return {
        "examples": len(samples),
        "tokens_per_response": round(tokens / len(samples), 1),
        "one_at_a_time": round(tokens / statistics.median(alone), 1),
        "in_batches": round(tokens / statistics.median(together), 1),
        "ratio": round(statistics.median(a / b for a, b in zip(alone, together, strict=True)), 2),
        "same_tokens": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--examples", type=int, default=48, help="of each kind")
    parser.add_argument("--batch", type=int, default=GENERATED_TOGETHER)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    args = parser.parse_args()
    lvlm = load(args.model)
    every = (sample("test", number) for number in range(SHAPES_SIZE))
    first = [next(every) for _ in range(args.examples)]
    more = (s for s in every if len(s.response.split()) >= SEVERAL_STEPS)
    kinds = {"all tasks": first, "several steps": [next(more) for _ in range(args.examples)]}
    rows = [
        {"kind": kind, **measure(lvlm, samples, args.batch, args.repeats, CLOCKS[args.clock])}
        for kind, samples in kinds.items()
    ]
    facts = {"model": args.model, "batch": args.batch, "threads": torch.get_num_threads(), "rows": rows}
    if args.json:
        print(json.dumps(facts, indent=1))
        return
    print(f"{args.model}, batches of {args.batch}, {facts['threads']} threads; tokens a second")
    print(f"{'examples':<20} {'tokens each':>11} {'one at a time':>14} {'in batches':>11} {'ratio':>6} {'same':>7}")
    for row in rows:
        print(
            f"{row['kind']:<20} {row['tokens_per_response']:11.1f} {row['one_at_a_time']:14.0f} "
            f"{row['in_batches']:11.0f} {row['ratio']:6.2f} {row['same_tokens']:3d}/{row['examples']}"
        )


if __name__ == "__main__":
    main()
