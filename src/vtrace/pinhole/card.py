"""Write the model card of Pinhole from a fresh measurement: `python -m vtrace.pinhole.card` (or `make card`)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..files import write_atomically
from ..lvlm import EMBEDDED, load
from .accuracy import measure


def card(result: dict[str, Any], log: list[dict[str, Any]], decoder: int, total: int) -> str:
    """The card as Markdown, every number from the measurement or the training log."""
    steps = {
        stage: [e for e in log if e["stage"] == stage and "loss" in e][-1] for stage in ("see", "reason", "polish")
    }
    minutes = sum(entry["minutes"] for entry in steps.values())
    pace = 60 * steps["polish"]["minutes"] / steps["polish"]["of"]
    alone = steps["see"]["minutes"] + pace * (steps["reason"]["of"] + steps["polish"]["of"]) / 60
    rows = "\n".join(
        f"| {task} | {row['accuracy']:.3f} | {row['blank']:.3f} | {row['majority']:.3f} |"
        for task, row in result["tasks"].items()
    )
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# Pinhole

A `Qwen3VLForConditionalGeneration` of {total / 1e6:.1f} M parameters ({decoder / 1e6:.1f} M in the decoder), trained from
scratch on Shapes, the seeded world of coloured shapes in `vtrace.benchmarks.shapes`. It exists so that VTrace can be
run, tested and measured without a download; it knows nothing but Shapes.

Architecture: 8 decoder layers of width 128, 4 query heads on 2 key/value heads of size 32, q/k-norm, interleaved
M-RoPE; a vision tower of 4 layers with 2 x 2 merging and DeepStack from layers 0 and 2. Weights are stored in bfloat16.

## How it was made

`make pinhole`, fixed seed, on two CPU cores, in three stages: {steps["see"]["of"]} steps in which the vision tower learns what each
visual token shows and where; {steps["reason"]["of"]} steps of 64 questions on the whole model; {steps["polish"]["of"]} more on the tasks learnt last. Label
smoothing of 0.03 keeps likelihoods off the ceiling. The run that made these weights took {minutes:.0f} minutes beside other
work. Its third stage had the cores mostly to itself; at that speed ({pace:.1f} s a step) the whole takes {alone:.0f} minutes.
`training-log.jsonl` has its losses. Training scenes are disjoint from dev and test by construction.

## Accuracy

Final answers on the {result["split"]} split, {result["per_task"]} questions a task, greedy decoding;
`python -m vtrace.pinhole.accuracy --json` recomputes the table. *Blank* replaces the picture by a grey one; *majority*
always gives the task's most frequent answer. Mean accuracy: **{result["mean"]:.3f}**; the whole response is word for word
the gold one in {result["exact_response"]:.3f} of the cases.

| task | accuracy | blank | majority |
|---|---|---|---|
{rows}

## Limits

Pictures are read at 36 to 64 visual tokens, so larger ones are scaled down. Anything that is not a Shapes scene, and any
question outside its grammar, gets a fluent and meaningless reply.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--per-task", type=int, default=200)
    args = parser.parse_args()
    folder: Path = EMBEDDED["pinhole"]
    lvlm = load("pinhole")
    result = measure(lvlm.model, lvlm.processor, "test", args.per_task, progress=sys.stderr.isatty())
    log = [json.loads(line) for line in (folder / "training-log.jsonl").read_text().splitlines()]
    sizes = [sum(p.numel() for p in module.parameters()) for module in (lvlm.seam.decoder, lvlm.model)]
    text = card(result, log, *sizes)
    write_atomically(folder / "accuracy.json", lambda file: file.write_text(json.dumps(result, indent=1) + "\n"))
    write_atomically(folder / "README.md", lambda file: file.write_text(text))
    print(f"wrote {folder / 'README.md'}: mean accuracy {result['mean']:.3f}")


if __name__ == "__main__":
    main()
