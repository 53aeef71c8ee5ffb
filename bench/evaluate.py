"""Compare the evaluation engine with one forward pass per step and method: `python bench/evaluate.py [--json]`.

Both measure the same insertion and deletion curves: nine methods, both targets, both settings, with the blur of Shapes.
The plain way pastes blurred patches into the picture, processes it, and runs the whole model, one state at a time. The
engine shares states and vision features, stops when a curve has reached its end value, and batches the rest.
Likelihoods and curves have to agree to 1e-5.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import replace

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch

import vtrace
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.curves import curve_of, groups_of, mass_of, ranked, states_of
from vtrace.faithfulness.likelihoods import MODES, ResponseLikelihoods
from vtrace.methods.comparison import compare
from vtrace.methods.session import TraceSession
from vtrace.tracing.pictures import blur
from vtrace.tracing.prompt import trace_inputs

METHODS = (
    "vtrace", "vtrace-ordered", "ifr", "ifr-multihop", "flashtrace", "flowtracer", "rollout", "attnlrp", "random",
)  # fmt: skip
TARGETS = ("response", "answer")


def plain_likelihood(lvlm, trace, soft, state) -> float:
    """One state the obvious way: paste blurred patches into the picture, process it, pad words, and run the model."""
    picture = trace.images[0].copy()
    for patch in trace.patches:
        if patch.position in state:
            box = tuple(map(round, patch.box))
            picture.paste(soft.crop(box), box)
    inputs = trace_inputs(lvlm, replace(trace, images=(picture,)))
    inputs["input_ids"][0, sorted(state.intersection(trace.positions("question")))] = lvlm.seam.pad_id
    with torch.no_grad():
        logits = lvlm.model(**inputs, use_cache=False).logits[0].double().log_softmax(-1)
    start = trace.prompt_length
    ids = torch.tensor(trace.ids[start:])
    return float(logits[start - 1 : -1].gather(1, ids[:, None]).mean().exp())


def measure(example: str) -> tuple[float, float, float, float]:
    """Seconds of the plain way and of the engine, and the largest differences in likelihoods and curves."""
    lvlm, radius = vtrace.load("pinhole"), find_benchmark("shapes").blur
    trace = vtrace.trace(lvlm, vtrace.example(example))
    attributions = [a for target in TARGETS for a in compare(lvlm, trace, METHODS, target=target).results.values()]
    groups = [
        (attribution.scores, groups_of(ranked(attribution.scores, positions)))
        for attribution in attributions
        for positions in (trace.positions("image"), trace.positions("image", "question"))
    ]
    plans = [(states_of(own, mode), mass_of(scores, own), mode) for scores, own in groups for mode in MODES]
    began = time.perf_counter()
    soft = blur(trace.images, radius)[0]
    plain = [[plain_likelihood(lvlm, trace, soft, state) for state in states] for states, *_ in plans]
    middle = time.perf_counter()
    engine = ResponseLikelihoods(TraceSession.open(lvlm, trace), radius)
    curves = engine.curves([attribution.scores for attribution in attributions])
    end = time.perf_counter()
    likelihoods = [engine.measure(states) for states, *_ in plans]
    expected = [curve_of(values, *plan[1:]).response for values, plan in zip(plain, plans, strict=True)]
    found = [curve.response for own in curves for curve in own.values()]
    return middle - began, end - middle, largest_difference(plain, likelihoods), largest_difference(expected, found)


def largest_difference(first: list, second: list) -> float:
    return max(abs(a - b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    parser.add_argument("--examples", nargs="+", default=["test-0", "test-7", "test-11"])
    args = parser.parse_args()
    rows = [measure(example) for example in args.examples]
    facts = {
        "methods": len(METHODS),
        "targets": len(TARGETS),
        "examples": len(rows),
        "plain_seconds": round(statistics.median(r[0] for r in rows), 2),
        "engine_seconds": round(statistics.median(r[1] for r in rows), 2),
        "ratio": round(statistics.median(r[0] / r[1] for r in rows), 2),
        "largest_difference": max(r[2] for r in rows),
        "largest_difference_of_curves": max(r[3] for r in rows),
    }
    if args.json:
        print(json.dumps(facts))
    else:
        print(sentence(facts))
    if max(facts["largest_difference"], facts["largest_difference_of_curves"]) > 1e-5:
        raise SystemExit("the engine does not measure what plain passes do")


def sentence(facts: dict) -> str:
    return (
        f"{facts['methods']} methods, both targets, settings and directions, median of {facts['examples']} examples: "
        f"{facts['plain_seconds']} s one pass at a time, {facts['engine_seconds']} s in the engine, "
        f"{facts['ratio']} x faster; likelihoods differ by at most {facts['largest_difference']:.1e}, "
        f"curves by {facts['largest_difference_of_curves']:.1e}"
    )


if __name__ == "__main__":
    main()
