"""Train the embedded models from scratch: `python -m vtrace.pinhole.train --model pinhole` (or `make pinhole`).

Training has stages, as for large models: first the vision tower learns what each visual token shows and where, then the
whole model learns to reason and answer. Every batch is a function of the seed and the step, so an interrupted run
resumes from its last checkpoint with the same result.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES, Scene, World
from .accuracy import measure_accuracy
from .build import save_checkpoint
from .internvl import PINHOLE_INTERNVL
from .muon import Muon
from .qwen import PINHOLE
from .recipe import Recipe, Stage, Vision
from .training_batches import IGNORE, Packer, training_scenes, vision_labels

RECIPES = {recipe.name: recipe for recipe in (PINHOLE, PINHOLE_INTERNVL)}
SEED = 20260
QUESTIONS = 4  # per picture
SMOOTHING = 0.03  # keeps likelihoods below 1, where single patches would stop mattering
OBJECTS = (6, 10)
WORKERS = 2
SAVE_EVERY = 100


def learning_rate(step: int, steps: int) -> float:
    """Share of the peak: linear warm-up, then cosine down to 2 %."""
    warmup = min(100, steps // 4)
    if step < warmup:
        return (step + 1) / warmup
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


class Loss(NamedTuple):
    """The loss of a batch, and what else is worth logging."""

    value: Tensor
    facts: dict[str, float]


class Step(NamedTuple):
    """The mean loss over the parts of a batch, as numbers."""

    loss: float
    facts: dict[str, float]


class Seer(nn.Module):
    """The vision tower with read-outs of each visual token: colour, shape, and perhaps row and column."""

    def __init__(self, model: PreTrainedModel, recipe: Recipe, world: World):
        super().__init__()
        self.visual = recipe.tower(model)
        self._see = partial(recipe.see, model)  # not the model itself: its parameters are not the tower's
        self.recipe, self.world = recipe, world
        width, classes = model.config.text_config.hidden_size, (len(SHAPE_COLOURS) + 1, len(SHAPES) + 1, 5, 5)
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes[: recipe.readouts])

    def loss(self, seed: str, images: int) -> Loss:
        batch = training_scenes(random.Random(seed), images, OBJECTS, self.world)
        return self.read_out(self.see(self.recipe.draw(batch)).tokens, batch)

    def see(self, pixels: dict[str, Tensor]) -> Vision:
        return self._see(pixels)

    def read_out(self, tokens: Tensor, batch: list[Scene]) -> Loss:
        labels = self.recipe.in_token_order(vision_labels(batch)).flatten(0, 1)
        logits = [head(tokens) for head in self.heads]
        losses = [F.cross_entropy(x, y) for x, y in zip(logits, labels.T[: len(logits)], strict=True)]
        full = (labels[:, 0] < len(SHAPE_COLOURS)) & (labels[:, 0] != IGNORE)
        hits = (logits[1].argmax(-1) == labels[:, 1])[full].float().mean()
        return Loss(torch.stack(losses).sum(), {"shape_seen": hits.item()})


class Reasoner(nn.Module):
    """The whole model on packed questions. The loss is on response tokens and still on the vision read-outs.

    Without the read-outs the tower forgets within a few hundred steps: a decoder that cannot yet use its image tokens
    sends back noise, and Muon turns noise into full-sized updates.
    """

    def __init__(self, model: PreTrainedModel, seer: Seer, packer: Packer, stage: Stage):
        super().__init__()
        self.model = model
        self.seer, self.packer, self.stage = seer, packer, stage

    def loss(self, seed: str, images: int) -> Loss:
        rng = random.Random(seed)
        shown = training_scenes(rng, images, OBJECTS, self.stage.world)
        batch = self.packer.pack(shown, rng, self.stage.often)
        core, recipe = self.model.model, self.packer.recipe
        seen, others = self.seer.see(batch.pixels)
        image = batch.ids == self.packer.image
        if recipe.mark_image:
            others[recipe.mark_image] = image
        embeds = core.language_model.embed_tokens(batch.ids).masked_scatter(image[..., None], seen)
        positions = batch.positions if len(batch.positions) > 1 else batch.positions[0]
        hidden = core.language_model(
            inputs_embeds=embeds, position_ids=positions, attention_mask=batch.mask, **others
        ).last_hidden_state
        keep = batch.labels != IGNORE
        logits, labels = self.model.lm_head(hidden[keep]), batch.labels[keep]
        hits = (logits.argmax(-1) == labels).float().mean()
        told = F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        saw, facts = self.seer.read_out(seen, shown)
        total = told + self.stage.see_weight * saw
        return Loss(total, {"told": told.item(), "token_accuracy": hits.item(), **facts})


class _Part(NamedTuple):
    """Loss and gradients of one worker's part of a batch."""

    loss: float
    facts: dict[str, float]
    gradients: tuple[Tensor | None, ...]


def set_gradients(loss: Callable[[str, int], Loss], parameters: list[nn.Parameter], seed: str, images: int) -> Step:
    """Set .grad from a batch split over threads, one core each: faster here than one batch on two cores."""

    def part(worker: int) -> _Part:
        value, facts = loss(f"{seed}/{worker}", images // WORKERS)
        return _Part(value.item(), facts, torch.autograd.grad(value, parameters, allow_unused=True))

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(part, range(WORKERS)))
    for p, *grads in zip(parameters, *(part.gradients for part in parts), strict=True):
        present = [g for g in grads if g is not None]
        p.grad = torch.stack(present).sum(0) / WORKERS if present else None
    mean = {key: sum(part.facts[key] for part in parts) / WORKERS for key in parts[0].facts}
    return Step(sum(part.loss for part in parts) / WORKERS, mean)


def build_optimisers(module: Seer | Reasoner, tower_rate: float) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices inside blocks, AdamW for embeddings, positions, norms, biases and read-outs."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {
        (inner, tower): [] for inner in (True, False) for tower in (True, False)
    }
    seer = module if isinstance(module, Seer) else module.seer
    of_tower = set(seer.visual.parameters())
    for name, p in module.named_parameters():
        inner = p.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "heads"))
        groups[inner, p in of_tower].append(p)

    def rated(inner: bool, peak: float) -> list[dict[str, Any]]:
        peaks = {True: peak * tower_rate, False: peak}
        return [dict(params=groups[inner, tower], lr=p, peak=p) for tower, p in peaks.items() if groups[inner, tower]]

    return (
        Muon(rated(True, 2e-3), lr=2e-3, weight_decay=0.05),
        torch.optim.AdamW(rated(False, 1e-3), betas=(0.9, 0.98), weight_decay=0.01),
    )


def run_stage(stage: Stage, module: Seer | Reasoner, folder: Path, every: Callable[[int], dict[str, Any]]) -> None:
    """Train one stage to its end, resuming from its last checkpoint if there is one."""
    name, steps = stage.name, stage.steps
    parameters = list(module.parameters())
    optimisers = build_optimisers(module, stage.tower_rate)
    checkpoint, step, spent = folder / f"{name}.pt", 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        module.load_state_dict(state["module"])
        for o, s in zip(optimisers, state["optimisers"], strict=True):
            o.load_state_dict(s)
        step, spent = state["step"], state["minutes"]
    began = time.monotonic() - 60 * spent
    module.train()
    while step < steps:
        loss, facts = set_gradients(module.loss, parameters, f"{SEED}/{name}/{step}", stage.images)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        for o in optimisers:
            for group in o.param_groups:
                group["lr"] = group["peak"] * learning_rate(step, steps)
            o.step()
        step += 1
        minutes = (time.monotonic() - began) / 60
        if step % 10 == 0 or step == steps:
            _log(
                folder,
                stage=name,
                step=step,
                of=steps,
                minutes=round(minutes, 2),
                loss=round(loss, 4),
                **{k: round(v, 4) for k, v in facts.items()},
            )
        if step % SAVE_EVERY == 0 or step == steps:
            state = dict(
                module=module.state_dict(), optimisers=[o.state_dict() for o in optimisers], step=step, minutes=minutes
            )
            torch.save(state, checkpoint.with_suffix(".tmp"))
            os.replace(checkpoint.with_suffix(".tmp"), checkpoint)
            if extra := every(step):
                _log(folder, stage=name, step=step, **extra)


def _log(folder: Path, **entry: object) -> None:
    line = json.dumps(entry)
    print(line, flush=True)
    with (folder / "log.jsonl").open("a") as file:
        file.write(line + "\n")


def borrow_decoder(model: PreTrainedModel, recipe: Recipe, work: Path) -> None:
    """Start from the decoder of another model, as large models start from an existing language model."""
    source = work.parent / str(recipe.decoder_from) / "reason.pt"
    if not source.exists():
        sys.exit(f"{recipe.name} starts from the decoder of {recipe.decoder_from}; train that first ({source})")
    prefix = "model.model.language_model."
    weights = torch.load(source, weights_only=True)["module"]
    model.model.language_model.load_state_dict(
        {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=list(RECIPES), default="pinhole")
    parser.add_argument("--work", type=Path, help="checkpoints and log (default: build/MODEL)")
    parser.add_argument("--out", type=Path, help="the finished model (default: where it is shipped)")
    args = parser.parse_args()
    recipe = RECIPES[args.model]
    work, out = args.work or Path("build") / recipe.name, args.out or Path(__file__).parent / recipe.folder
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)

    tokenizer = recipe.tokenizer()
    model = recipe.build(tokenizer)
    if recipe.decoder_from:
        borrow_decoder(model, recipe, work)
    processor, packer = recipe.processor(tokenizer), Packer(recipe, tokenizer, QUESTIONS)
    seer = Seer(model, recipe, recipe.stages[0].world)

    def check(stage: Stage, step: int) -> dict[str, Any]:
        if not stage.whole or (step % 300 and step != stage.steps):
            return {}
        model.eval()
        tasks = measure_accuracy(model, processor, "dev", per_task=20, blank=False, world=stage.world)["tasks"]
        model.train()
        return {"accuracy": {task: row["accuracy"] for task, row in tasks.items()}}

    for stage in recipe.stages:
        module = Reasoner(model, seer, packer, stage) if stage.whole else seer
        run_stage(stage, module, work, partial(check, stage))

    draft = work / "checkpoint"
    shutil.rmtree(draft, ignore_errors=True)
    save_checkpoint(model.eval(), processor, draft)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(draft, out)
    shutil.copy(work / "log.jsonl", out / "training-log.jsonl")
    for path in out.iterdir():
        path.chmod(0o644)  # temporary files are readable by their owner only; these are shipped


if __name__ == "__main__":
    main()
