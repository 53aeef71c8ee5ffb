"""Write the card of an embedded model from a fresh measurement: `python -m vtrace.pinhole.card` (or `make card`)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file

from ..lvlm.checkpoint_source import EMBEDDED
from ..lvlm.joined import JOINED, TRAINED
from ..lvlm.load import load
from ..lvlm.model import Lvlm
from ..lvlm.pretrained import PACKAGED
from ..system.files import write_atomically
from .accuracy import AccuracyReport, dtype_of, measure_accuracy, show_progress, world_of
from .low_rank import RANK
from .recipe import Recipe
from .smollm2 import NAME
from .train import RECIPES
from .train_smollm2 import STAGES, Lesson

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


def trained_parameters(folder: Path) -> int:
    """Of a model that is joined with a pretrained decoder."""
    return sum(value.numel() for value in load_file(folder / TRAINED).values())


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

{_accuracy(recipe.name, result)}"""


def _accuracy(name: str, result: AccuracyReport, note: str = "") -> str:
    rows = "\n".join(
        f"| {task} | {row['accuracy']:.3f} | {row['blank']:.3f} | {row['majority']:.3f} |"
        for task, row in result["tasks"].items()
    )
    return f"""## Accuracy

Final answers on the {result["split"]} split, {result["per_task"]} questions per task, greedy decoding;
`python -m vtrace.pinhole.accuracy --model {name} --json` recomputes the table.{note} *Blank* replaces the picture with a grey one;
*majority* always gives the task's most frequent answer. Mean accuracy: **{result["mean"]:.3f}**; the whole response
equals the gold one word for word in {result["exact_response"]:.3f} of the cases.

| task | accuracy | blank | majority |
|---|---|---|---|
{rows}

## Limits

Anything that is not a Shapes scene, and any question outside its grammar, gets a fluent and meaningless reply.
"""


def joined_card(result: AccuracyReport, log: list[dict[str, Any]], size: ModelSize, trained: int) -> str:
    """The card of Pinhole-SmolLM2 as Markdown."""
    last = {stage.name: [entry for entry in log if entry["stage"] == stage.name][-1] for stage in STAGES}
    stages = "\n".join(
        f"| {s.name} | {_tuned(s)} | {s.steps} | {s.images} | {s.per_image or '–'} | {last[s.name]['minutes']:.0f} |"
        for s in STAGES
    )
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# {NAME}

`Idefics3ForConditionalGeneration` with a pretrained decoder: SmolLM2-135M-Instruct (Apache 2.0), which is not in this
folder but comes from the PyPI package `{PACKAGED[JOINED[NAME].base].requirement}`. `vtrace.load("{NAME}")` builds the whole model of
{size.total / 1e6:.0f} M parameters ({size.decoder / 1e6:.0f} M in the decoder) once in the user's cache.

Trained on Shapes, and shipped here in bfloat16, are {trained / 1e6:.1f} M parameters: a vision tower of 4 layers with its connector, and a
change of rank {RANK} for every matrix in the layers of the decoder. A picture is cut into tiles of 64 x 64 pixels, the cells of the board,
and a small copy of the whole; each has four visual tokens. Before each tile, the prompt says in words where it is.

## How it was made

`python -m vtrace.pinhole.train_smollm2`, on two CPU cores shared with other work. The decoder learns from visual tokens
that are sums of its own words, such as " red" and " circle"; the tower learns to make such tokens from pixels; then both
are trained together.

| stage | trains | steps | pictures per step | questions per picture | minutes |
|---|---|---|---|---|---|
{stages}

These are the steps of the shipped weights. Their first two stages were run in several parts, with changed prompts, learning
rates and mixes of tasks, while the program was being written; a run from scratch has not been made. Training
scenes are disjoint from dev and test by construction.

{_accuracy(NAME, result, f" Add `--per-task {result['per_task']}`. It computes in bfloat16. Only boards of 4 x 4 and 4 x 3 cells are asked about: on others, tiles are no cells.")}"""


def _tuned(stage: Lesson) -> str:
    parts = {"the changes": stage.rate.changes, "the tower": stage.rate.tower}
    return " and ".join(name for name, rate in parts.items() if rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split(":")[0])
    parser.add_argument("--model", choices=[*EMBEDDED, *JOINED], default="pinhole")
    parser.add_argument("--per-task", type=int, default=200)
    args = parser.parse_args()
    joined = args.model in JOINED
    folder: Path = JOINED[args.model].shipped if joined else EMBEDDED[args.model]
    lvlm = load(args.model, dtype_of(args.model))
    result = measure_accuracy(
        lvlm.model, lvlm.processor, "test", args.per_task, progress=show_progress, world=world_of(args.model)
    )
    write_atomically(folder / "accuracy.json", lambda file: file.write_text(json.dumps(result, indent=1) + "\n"))
    log = [json.loads(line) for line in (folder / "training-log.jsonl").read_text().splitlines()]
    if joined:
        text = joined_card(result, log, size_of(lvlm), trained_parameters(folder))
    else:
        text = card(RECIPES[args.model], result, log, size_of(lvlm))
    write_atomically(folder / "README.md", lambda file: file.write_text(text))
    print(f"wrote {folder / 'README.md'}: mean accuracy {result['mean']:.3f}")


if __name__ == "__main__":
    main()
