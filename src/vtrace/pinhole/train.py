"""Train the embedded models from scratch: `python -m vtrace.pinhole.train --model pinhole` (or `make pinhole`).

Training has stages, as for large models: the vision tower first learns what each visual token shows and where, then
the whole model learns to reason and answer. Every batch is a function of the seed and the step, so an interrupted run
resumes from its last checkpoint with the same result.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .accuracy import measure_accuracy
from .build import save_checkpoint
from .internvl import PINHOLE_INTERNVL
from .muon import Muon
from .objectives import Loss, Reasoner, Seer
from .qwen import PINHOLE
from .recipe import Recipe, Stage
from .training_batches import Packer

RECIPES = {recipe.name: recipe for recipe in (PINHOLE, PINHOLE_INTERNVL)}
SEED = 20260
QUESTIONS = 4  # per picture
WORKERS = 2
SAVE_EVERY = 100


def learning_rate(step: int, steps: int) -> float:
    """Share of the peak: linear warm-up, then cosine down to 2 %."""
    warmup = min(100, steps // 4)
    if step < warmup:
        return (step + 1) / warmup
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


class Step(NamedTuple):
    """The mean loss over the parts of a batch, as numbers."""

    loss: float
    facts: dict[str, float]


class _Part(NamedTuple):
    """Loss and gradients of one worker's part of a batch."""

    loss: float
    facts: dict[str, float]
    gradients: tuple[Tensor | None, ...]


def set_gradients(loss: Callable[[str, int], Loss], parameters: list[nn.Parameter], seed: str, images: int) -> Step:
    """Set .grad from a batch split over threads, one per core: faster here than one batch on two cores."""

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


class Optimisers(NamedTuple):
    """One for the matrices inside blocks, one for everything else."""

    muon: Muon
    adam: torch.optim.AdamW


def build_optimisers(module: Seer | Reasoner, tower_rate: float) -> Optimisers:
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

    return Optimisers(
        Muon(rated(True, 2e-3), lr=2e-3, weight_decay=0.05),
        torch.optim.AdamW(rated(False, 1e-3), betas=(0.9, 0.98), weight_decay=0.01),
    )


class Stop(NamedTuple):
    """Where training ends early, for a half-trained model."""

    stage: str
    step: int


def parse_stop(text: str) -> Stop:
    """A stage and a step, such as reason:700."""
    stage, _, step = text.partition(":")
    if not step.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a stage and a step, such as reason:700")
    return Stop(stage, int(step))


def run_stage(
    stage: Stage, module: Seer | Reasoner, folder: Path, last: int, every: Callable[[int], dict[str, Any]]
) -> None:
    """Train one stage up to its step `last`, resuming from its last checkpoint if there is one."""
    optimisers = build_optimisers(module, stage.tower_rate)
    checkpoint = folder / f"{stage.name}.pt"
    step, spent = _resume(checkpoint, module, optimisers)
    if step > last:
        sys.exit(f"{checkpoint} is already at step {step}, past {last}; give another --work folder")
    began = time.monotonic() - 60 * spent
    module.train()
    while step < last:
        loss, facts = _update(stage, module, optimisers, step)
        step += 1
        minutes = (time.monotonic() - began) / 60
        if step % 10 == 0 or step == last:
            measured = {name: round(value, 4) for name, value in {"loss": loss, **facts}.items()}
            _log(folder, stage=stage.name, step=step, of=stage.steps, minutes=round(minutes, 2), **measured)
        if step % SAVE_EVERY == 0 or step == last:
            _keep(checkpoint, module, optimisers, _Done(step, minutes))
            if extra := every(step):
                _log(folder, stage=stage.name, step=step, **extra)


def _update(stage: Stage, module: Seer | Reasoner, optimisers: Optimisers, step: int) -> Step:
    parameters = list(module.parameters())
    found = set_gradients(module.loss, parameters, f"{SEED}/{stage.name}/{step}", stage.images)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * learning_rate(step, stage.steps)
        optimiser.step()
    return found


class _Done(NamedTuple):
    """Progress of a stage."""

    step: int
    minutes: float


def _resume(checkpoint: Path, module: nn.Module, optimisers: Optimisers) -> _Done:
    if not checkpoint.exists():
        return _Done(0, 0.0)
    state = torch.load(checkpoint, weights_only=True)
    module.load_state_dict(state["module"])
    for optimiser, kept in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(kept)
    return _Done(state["step"], state["minutes"])


def _keep(checkpoint: Path, module: nn.Module, optimisers: Optimisers, done: _Done) -> None:
    kept = [optimiser.state_dict() for optimiser in optimisers]
    temporary = checkpoint.with_suffix(".tmp")
    torch.save({"module": module.state_dict(), "optimisers": kept, **done._asdict()}, temporary)
    os.replace(temporary, checkpoint)


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
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", choices=list(RECIPES), default="pinhole")
    parser.add_argument("--work", type=Path, help="checkpoints and log (default: build/MODEL)")
    parser.add_argument("--out", type=Path, help="the finished model (default: where it is shipped)")
    parser.add_argument("--until", type=parse_stop, metavar="STAGE:STEP", help="stop early; needs --out")
    args = parser.parse_args()
    recipe = RECIPES[args.model]
    if args.until and not args.out:
        parser.error("--until needs --out: a half-trained model does not replace the shipped one")
    if args.until and args.until.stage not in [stage.name for stage in recipe.stages]:
        parser.error(f"no stage {args.until.stage!r}; stages: {', '.join(stage.name for stage in recipe.stages)}")
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
        ends = args.until is not None and args.until.stage == stage.name
        run_stage(stage, module, work, args.until.step if ends else stage.steps, partial(check, stage))
        if ends:
            break

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
