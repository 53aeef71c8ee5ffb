"""The evaluation engine against one forward pass per step and method: `python bench/evaluate.py [--json]`.

Both measure the same insertion and deletion curves of several methods in both settings. The plain way builds
the perturbed picture of every step, and runs the whole model on it, one state after the other. The engine
shares states and vision features and batches the rest. Likelihoods have to agree to 1e-5.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch

import vtrace
from vtrace.attribution import trace_inputs
from vtrace.comparison import compare
from vtrace.faithfulness.curves import groups_of, ranked, states_of
from vtrace.faithfulness.measure import MODES, Measure
from vtrace.perturb import BLUR, blurred

METHODS = ("vtrace", "ifr", "flashtrace", "rollout", "attention", "random")


def plain_likelihood(lvlm, trace, state) -> float:
    """One state the obvious way: process the picture, blur what is to be blurred, pad, and run the model."""
    inputs = trace_inputs(lvlm, trace)
    soft = trace_inputs(lvlm, blurred(trace, BLUR))
    image = trace.positions("image")
    chosen = torch.tensor([p in state for p in image])
    mask = lvlm.family.pixel_mask(inputs, chosen.to(lvlm.device), lvlm.model.config)
    inputs["pixel_values"] = inputs["pixel_values"].where(~mask, soft["pixel_values"])
    words = [p for p in state if p not in set(image)]
    inputs["input_ids"][0, words] = lvlm.seam.pad_id
    with torch.no_grad():
        logits = lvlm.model(**inputs, use_cache=False).logits[0].double().log_softmax(-1)
    start = trace.prompt_length
    ids = torch.tensor(trace.ids[start:])
    return float(logits[start - 1 : -1].gather(1, ids[:, None]).mean().exp())


def measure(example: str) -> tuple[float, float, float]:
    """Seconds of the plain way and of the engine, and the largest difference of likelihoods."""
    lvlm = vtrace.load("pinhole")
    trace = vtrace.trace(lvlm, vtrace.example(example))
    attributions = list(compare(lvlm, trace, METHODS).results.values())
    states = [
        state
        for attribution in attributions
        for positions in (trace.positions("image"), trace.positions("image", "question"))
        for mode in MODES
        for state in states_of(groups_of(ranked(attribution.scores, positions)), mode)
    ]
    began = time.perf_counter()
    plain = [plain_likelihood(lvlm, trace, state) for state in states]
    middle = time.perf_counter()
    engine = Measure(lvlm, trace, BLUR)
    engine.curves(attributions)
    end = time.perf_counter()
    apart = max(abs(a - b) for a, b in zip(plain, engine.likelihoods(states), strict=True))
    return middle - began, end - middle, apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    parser.add_argument("--examples", nargs="+", default=["test-0", "test-7", "test-11"])
    args = parser.parse_args()
    rows = [measure(example) for example in args.examples]
    facts = {
        "methods": len(METHODS),
        "examples": len(rows),
        "plain_seconds": round(statistics.median(r[0] for r in rows), 2),
        "engine_seconds": round(statistics.median(r[1] for r in rows), 2),
        "ratio": round(statistics.median(r[0] / r[1] for r in rows), 2),
        "largest_difference": max(r[2] for r in rows),
    }
    if args.json:
        print(json.dumps(facts))
        return
    print(
        f"{facts['methods']} methods, both settings and directions, median of {facts['examples']} examples: "
        f"{facts['plain_seconds']} s one pass at a time, {facts['engine_seconds']} s in the engine, "
        f"{facts['ratio']} x faster; likelihoods differ by at most {facts['largest_difference']:.1e}"
    )


if __name__ == "__main__":
    main()
