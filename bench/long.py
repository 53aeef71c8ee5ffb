"""Explanations of long sequences: `python bench/long.py [--memory 1GB] [--json]`.

A small randomly initialised Qwen3-VL, the real seam, the real stages. Every length runs in a fresh process, so that
its peak is its own; the prediction is that of `vtrace doctor`. Growth is the exponent of the processor time of the
instrumented pass from one length to the next.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from overhead import VOCABULARY, Subject, high_water_mark
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from vtrace.attribution.options import Options
from vtrace.attribution.pipeline import run_stages
from vtrace.attribution.requirements import examine
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target

LENGTHS = (1024, 4096, 8192, 16_384, 32_768)
MEGABYTE = 1e6


def small_config() -> Qwen3VLConfig:
    """Few layers and heads, so that attention dominates early and the longest sequence takes minutes."""
    text = dict(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=max(LENGTHS), dtype="float32",
        rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[12, 10, 10], mrope_interleaved=True),
    )  # fmt: skip
    vision = dict(
        depth=1, hidden_size=64, intermediate_size=128, num_heads=2, out_hidden_size=256, deepstack_visual_indexes=[]
    )
    return Qwen3VLConfig(text_config=text, vision_config=vision, dtype="float32")


def measure(tokens: int, memory: str) -> dict[str, Any]:
    """One explanation in this process, and what it was predicted to need."""
    config = small_config()
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        plan = examine(folder, tokens, "float32", memory)["plan"]
    torch.manual_seed(0)
    subject = Subject(tokens, Qwen3VLForConditionalGeneration(config).eval())
    session = TraceSession(subject.seam, subject.trace, subject.arguments, keep_layers=False, memory=memory or None)
    began, used = time.perf_counter(), time.process_time()
    session.pairwise()
    instrumented, used = time.perf_counter() - began, time.process_time() - used
    run_stages(session, find_target(subject.trace, "response"), Options())
    return {
        "tokens": tokens,
        "seconds": round(time.perf_counter() - began, 2),
        "instrumented_seconds": round(instrumented, 2),
        "instrumented_processor_seconds": round(used, 3),
        "peak_mb": round(high_water_mark() / MEGABYTE),
        "predicted_mb": round(plan["total_bytes"] / MEGABYTE),
        "disk_mb": round(plan["disk_bytes"] / MEGABYTE),
    }


def in_fresh_process(tokens: int, memory: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(tokens), "--memory", memory]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The exponent of the instrumented pass between neighbouring lengths."""
    return [
        {
            "from": a["tokens"],
            "to": b["tokens"],
            "exponent": round(
                math.log(b["instrumented_processor_seconds"] / a["instrumented_processor_seconds"])
                / math.log(b["tokens"] / a["tokens"]),
                2,
            ),
        }
        for a, b in itertools.pairwise(rows)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tokens", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--memory", default="", help="memory budget, such as 1GB; default: none")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.memory)))
        return
    rows = []
    for tokens in args.tokens:
        print(f"{tokens} tokens", file=sys.stderr)
        rows.append(in_fresh_process(tokens, args.memory))
    if args.json:
        print(json.dumps({"memory": args.memory, "rows": rows, "growth": growth(rows)}, indent=1))
        return
    print(f"memory budget: {args.memory or 'none'}; {torch.get_num_threads()} threads")
    print(f"{'tokens':>7} {'all [s]':>8} {'instrumented [s]':>17} {'peak [MB]':>10} {'predicted':>10} {'disk':>6}")
    for row in rows:
        print(
            f"{row['tokens']:7d} {row['seconds']:8.1f} {row['instrumented_seconds']:17.1f} {row['peak_mb']:10d} "
            f"{row['predicted_mb']:10d} {row['disk_mb']:6d}"
        )
    for step in growth(rows):
        print(f"growth from {step['from']} to {step['to']}: exponent {step['exponent']}")


if __name__ == "__main__":
    main()
