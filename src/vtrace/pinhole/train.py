"""Train Pinhole from scratch: `python -m vtrace.pinhole.train` (or `make pinhole`).

Three stages, as big models are made: the vision tower first learns to see (what does each visual token
show, and where), then the whole model learns to reason and answer, then it practises what it is still bad
at. Every batch is a function of the seed and the step, so a run that is killed continues from its last
checkpoint as if nothing happened.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..benchmarks.shapes.scene import COLOURS, SHAPES, Scene
from .accuracy import measure
from .build import build_model, build_processor, build_tokenizer, save
from .muon import Muon
from .pack import IGNORE, Packer, draw, scenes, vision_labels

SEED = 20260
SEE_STEPS, SEE_IMAGES = 450, 32
REASON_STEPS, REASON_IMAGES, QUESTIONS = 1900, 16, 4
SEE_WEIGHT, SEE_RATE = 0.1, 0.25  # of the read-out loss, and of the tower's learning rate, while reasoning is learnt
SMOOTHING = 0.03  # keeps likelihoods off the ceiling, where single patches would stop to matter
OBJECTS = (6, 10)
HARDER = {"walk_read": 2.0, "exist": 1.5, "compare": 1.5, "count": 1.5, "walk3": 1.5}  # sampled more often
POLISH_STEPS, POLISH_RATE = 220, 0.5
PRACTISED = {"exist": 8.0, "count": 2.0, "compare": 1.5}  # what is learnt last
WORKERS = 2
SAVE_EVERY = 100


def learning_rate(step: int, steps: int) -> float:
    """Share of the peak: linear warm-up, then cosine down to 2 %."""
    warmup = min(100, steps // 4)
    if step < warmup:
        return (step + 1) / warmup
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


class Seer(nn.Module):
    """The vision tower with four read-outs per visual token: colour, shape, row, column."""

    def __init__(self, visual: nn.Module, width: int):
        super().__init__()
        self.visual: Any = visual
        self.heads = nn.ModuleList(nn.Linear(width, classes) for classes in (len(COLOURS) + 1, len(SHAPES) + 1, 5, 5))

    def loss(self, seed: str, images: int) -> tuple[Tensor, dict[str, float]]:
        batch = scenes(random.Random(seed), images, OBJECTS)
        pixels, grid = draw(batch)
        return self.read_out(self.visual(pixels, grid_thw=grid).pooler_output, batch)

    def read_out(self, tokens: Tensor, batch: list[Scene]) -> tuple[Tensor, dict[str, float]]:
        labels = vision_labels(batch).flatten(0, 1)
        logits = [head(tokens) for head in self.heads]
        loss = torch.stack([F.cross_entropy(x, y) for x, y in zip(logits, labels.T, strict=True)]).sum()
        full = labels[:, 0] < len(COLOURS)
        hits = (logits[1].argmax(-1) == labels[:, 1])[full].float().mean()
        return loss, {"shape_seen": hits.item()}


class Reasoner(nn.Module):
    """The whole model on packed questions; loss on response tokens, and still on what the tower sees.

    Without the read-outs the tower forgets within a few hundred steps: a decoder that cannot yet use
    what it is shown sends back noise, and Muon turns noise into full-sized updates.
    """

    def __init__(self, model: nn.Module, seer: Seer, packer: Packer, weights: dict[str, float]):
        super().__init__()
        self.model: Any = model
        self.seer, self.packer, self.weights = seer, packer, weights

    def loss(self, seed: str, images: int) -> tuple[Tensor, dict[str, float]]:
        rng = random.Random(seed)
        shown = scenes(rng, images, OBJECTS)
        batch = self.packer.pack(shown, rng, self.weights)
        core = self.model.model
        seen = core.visual(batch.pixels, grid_thw=batch.grid)
        image = batch.ids == self.packer.image
        embeds = core.language_model.embed_tokens(batch.ids).masked_scatter(image[..., None], seen.pooler_output)
        hidden = core.language_model(
            inputs_embeds=embeds, position_ids=batch.positions, attention_mask=batch.mask,
            visual_pos_masks=image, deepstack_visual_embeds=seen.deepstack_features,
        ).last_hidden_state  # fmt: skip
        keep = batch.labels != IGNORE
        logits, labels = self.model.lm_head(hidden[keep]), batch.labels[keep]
        hits = (logits.argmax(-1) == labels).float().mean()
        told = F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        saw, facts = self.seer.read_out(seen.pooler_output, shown)
        return told + SEE_WEIGHT * saw, {"told": told.item(), "token_accuracy": hits.item(), **facts}


def gradients(loss: Callable, parameters: list[nn.Parameter], seed: str, images: int) -> tuple[float, dict[str, float]]:
    """Set .grad from a batch split over threads, one core each: faster here than one batch on two cores."""

    def part(worker: int):
        value, facts = loss(f"{seed}/{worker}", images // WORKERS)
        return value.item(), facts, torch.autograd.grad(value, parameters, allow_unused=True)

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(part, range(WORKERS)))
    for p, *grads in zip(parameters, *(grads for *_, grads in parts), strict=True):
        present = [g for g in grads if g is not None]
        p.grad = torch.stack(present).sum(0) / WORKERS if present else None
    mean = {key: sum(facts[key] for _, facts, _ in parts) / WORKERS for key in parts[0][1]}
    return sum(value for value, *_ in parts) / WORKERS, mean


def optimiser(module: nn.Module, rate: float, tower_rate: float) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices inside blocks, AdamW for embeddings, positions, norms, biases and read-outs."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {
        (inner, tower): [] for inner in (True, False) for tower in (True, False)
    }
    for name, p in module.named_parameters():
        inner = p.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "heads"))
        groups[inner, "visual" in name].append(p)

    def rated(inner: bool, peak: float) -> list[dict]:
        peaks = {True: peak * rate * tower_rate, False: peak * rate}
        return [dict(params=groups[inner, tower], lr=p, peak=p) for tower, p in peaks.items() if groups[inner, tower]]

    return (
        Muon(rated(True, 2e-3), lr=2e-3, weight_decay=0.05),
        torch.optim.AdamW(rated(False, 1e-3), betas=(0.9, 0.98), weight_decay=0.01),
    )


def run_stage(
    name: str,
    module: Seer | Reasoner,
    images: int,
    steps: int,
    folder: Path,
    every: Callable[[int], dict],
    rate: float = 1.0,
    tower_rate: float = 1.0,
) -> None:
    """Train one stage to its end, from its last checkpoint if there is one."""
    parameters = list(module.parameters())
    optimisers = optimiser(module, rate, tower_rate)
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
        loss, facts = gradients(module.loss, parameters, f"{SEED}/{name}/{step}", images)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        for o in optimisers:
            for group in o.param_groups:
                group["lr"] = group["peak"] * learning_rate(step, steps)
            o.step()
        step += 1
        minutes = (time.monotonic() - began) / 60
        if step % 10 == 0 or step == steps:
            log(
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
                log(folder, stage=name, step=step, **extra)


def log(folder: Path, **entry) -> None:
    line = json.dumps(entry)
    print(line, flush=True)
    with (folder / "log.jsonl").open("a") as file:
        file.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/pinhole"), help="checkpoints and log")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "checkpoint", help="the finished model")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)

    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    embed = model.model.visual.patch_embed
    # Training only: the patch convolution as the matrix product it is, several times faster on a CPU.
    embed.forward = lambda x: F.linear(x, embed.proj.weight.flatten(1), embed.proj.bias)

    seer = Seer(model.model.visual, model.config.text_config.hidden_size)
    run_stage("see", seer, SEE_IMAGES, SEE_STEPS, args.work, lambda step: {})

    def check(step: int) -> dict:
        if step % 300 and step not in (REASON_STEPS, POLISH_STEPS):
            return {}
        model.eval()
        tasks = measure(model, build_processor(tokenizer), "dev", per_task=20, blank=False)["tasks"]
        model.train()
        return {"accuracy": {task: row["accuracy"] for task, row in tasks.items()}}

    packer = Packer(tokenizer, QUESTIONS)
    reasoner = Reasoner(model, seer, packer, HARDER)
    run_stage("reason", reasoner, REASON_IMAGES, REASON_STEPS, args.work, check, tower_rate=SEE_RATE)
    practice = Reasoner(model, seer, packer, PRACTISED)
    run_stage("polish", practice, REASON_IMAGES, POLISH_STEPS, args.work, check, POLISH_RATE, SEE_RATE)

    del embed.forward
    draft = args.work / "checkpoint"
    shutil.rmtree(draft, ignore_errors=True)
    save(model.eval(), tokenizer, draft)
    shutil.rmtree(args.out, ignore_errors=True)
    shutil.copytree(draft, args.out)
    shutil.copy(args.work / "log.jsonl", args.out / "training-log.jsonl")
    for path in args.out.iterdir():
        path.chmod(0o644)  # temporary files are for their owner only; this is to be shipped


if __name__ == "__main__":
    main()
