"""Write the card of an embedded model from a fresh measurement: `python -m vtrace.pinhole.card` (or `make card`)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from ..lvlm.checkpoint_source import EMBEDDED
from ..lvlm.load import load
from ..lvlm.model import Lvlm
from ..system.files import write_atomically
from .accuracy import AccuracyReport, measure_accuracy, show_progress
from .recipe import Recipe
from .train import RECIPES

ABOUT = {
    "pinhole": """`Qwen3VLForConditionalGeneration`: 8 decoder layers of width 128, 4 query heads on 2 key/value heads of size 32, q/k-norm,
interleaved M-RoPE; a vision tower of 4 layers with 2 x 2 merging and DeepStack from layers 0 and 2. A picture has 36 to
64 visual tokens of 32 x 32 pixels; larger pictures are scaled down.""",
    "pinhole-internvl": """`InternVLForConditionalGeneration`: the same decoder with plain rotary positions (Qwen3); a vision tower of 4 layers that
sees tiles of 64 x 64 pixels one by one, with pixel shuffle to four visual tokens per tile. Pictures become up to 16 tiles and a thumbnail.""",
}


class ModelSize(NamedTuple):
    """Numbers of parameters."""

    decoder: int
    total: int


def size_of(lvlm: Lvlm) -> ModelSize:
    decoder, total = (sum(p.numel() for p in module.parameters()) for module in (lvlm.seam.decoder, lvlm.model))
    return ModelSize(decoder, total)


def card(recipe: Recipe, result: AccuracyReport, log: list[dict[str, Any]], size: ModelSize) -> str:
    """The card as Markdown; every number comes from the measurement or the training log."""
    last = {stage.name: [e for e in log if e["stage"] == stage.name and "loss" in e][-1] for stage in recipe.stages}
    minutes = sum(entry["minutes"] for entry in last.values())
    stages = "\n".join(
        f"| {s.name} | {'whole model' if s.whole else 'vision tower'} | {s.world.radius[0]:g} to {s.world.radius[1]:g} px "
        f"| {last[s.name]['of']} | {s.images} | {last[s.name]['minutes']:.0f} |"
        for s in recipe.stages
    )
    start = (
        f"Its decoder starts from that of `{recipe.decoder_from}` after its second stage, as large models start from a language model."
        if recipe.decoder_from
        else "It starts from random weights."
    )
    rows = "\n".join(
        f"| {task} | {row['accuracy']:.3f} | {row['blank']:.3f} | {row['majority']:.3f} |"
        for task, row in result["tasks"].items()
    )
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# {recipe.name}

{size.total / 1e6:.1f} M parameters ({size.decoder / 1e6:.1f} M in the decoder), trained on Shapes, the seeded world of coloured shapes in
`vtrace.benchmarks.shapes`. It exists so that VTrace can be run, tested and measured without a download. It can only answer questions about Shapes.

{ABOUT[recipe.name]} Weights are stored in bfloat16.

## How it was made

`python -m vtrace.pinhole.train --model {recipe.name}` (`make pinhole`), fixed seed, on two CPU cores. {start}

| stage | trains | radius of things | steps | pictures per step | minutes |
|---|---|---|---|---|---|
{stages}

The whole model is trained on four questions per picture. Label smoothing of 0.03 keeps likelihoods below 1. The run took
{minutes:.0f} minutes on a machine shared with other work. `training-log.jsonl` has its losses. Training scenes are disjoint
from dev and test by construction.

## Accuracy

Final answers on the {result["split"]} split, {result["per_task"]} questions per task, greedy decoding;
`python -m vtrace.pinhole.accuracy --model {recipe.name} --json` recomputes the table. *Blank* replaces the picture with a grey one;
*majority* always gives the task's most frequent answer. Mean accuracy: **{result["mean"]:.3f}**; the whole response
equals the gold one word for word in {result["exact_response"]:.3f} of the cases.

| task | accuracy | blank | majority |
|---|---|---|---|
{rows}

## Limits

Anything that is not a Shapes scene, and any question outside its grammar, gets a fluent and meaningless reply.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split(":")[0])
    parser.add_argument("--model", choices=list(EMBEDDED), default="pinhole")
    parser.add_argument("--per-task", type=int, default=200)
    args = parser.parse_args()
    folder: Path = EMBEDDED[args.model]
    lvlm = load(args.model)
    result = measure_accuracy(lvlm.model, lvlm.processor, "test", args.per_task, progress=show_progress)
    log = [json.loads(line) for line in (folder / "training-log.jsonl").read_text().splitlines()]
    text = card(RECIPES[args.model], result, log, size_of(lvlm))
    write_atomically(folder / "accuracy.json", lambda file: file.write_text(json.dumps(result, indent=1) + "\n"))
    write_atomically(folder / "README.md", lambda file: file.write_text(text))
    print(f"wrote {folder / 'README.md'}: mean accuracy {result['mean']:.3f}")


if __name__ == "__main__":
    main()
