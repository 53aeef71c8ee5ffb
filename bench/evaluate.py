"""The evaluation engine against one forward pass per step and method: `python bench/evaluate.py [--json]`.

Both measure the same insertion and deletion curves: those of `make results`, nine methods for both targets in both
settings. The plain way pastes blurred patches into the picture, processes it, and runs the whole model, for one state
after the other. The engine shares states and vision features and batches the rest. Likelihoods have to agree to 1e-5.
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
from vtrace.attribution import trace_inputs
from vtrace.comparison import compare
from vtrace.faithfulness.curves import groups_of, ranked, states_of
from vtrace.faithfulness.measure import MODES, Measure
from vtrace.perturb import BLUR, blurred

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


def measure(example: str) -> tuple[float, float, float]:
    """Seconds of the plain way and of the engine, and the largest difference of likelihoods."""
    lvlm = vtrace.load("pinhole")
    trace = vtrace.trace(lvlm, vtrace.example(example))
    attributions = [a for target in TARGETS for a in compare(lvlm, trace, METHODS, target=target).results.values()]
    states = [
        state
        for attribution in attributions
        for positions in (trace.positions("image"), trace.positions("image", "question"))
        for mode in MODES
        for state in states_of(groups_of(ranked(attribution.scores, positions)), mode)
    ]
    began = time.perf_counter()
    soft = blurred(trace, BLUR).images[0]
    plain = [plain_likelihood(lvlm, trace, soft, state) for state in states]
    middle = time.perf_counter()
    engine = Measure(lvlm, trace, BLUR)
    engine.curves([attribution.scores for attribution in attributions])
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
        "targets": len(TARGETS),
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
        f"{facts['methods']} methods, both targets, settings and directions, median of {facts['examples']} examples: "
        f"{facts['plain_seconds']} s one pass at a time, {facts['engine_seconds']} s in the engine, "
        f"{facts['ratio']} x faster; likelihoods differ by at most {facts['largest_difference']:.1e}"
    )


if __name__ == "__main__":
    main()
