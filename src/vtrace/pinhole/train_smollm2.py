"""Train Pinhole-SmolLM2: `python -m vtrace.pinhole.train_smollm2`. An interrupted run resumes from its checkpoint.

Three stages. The decoder learns to answer from image tokens made of its own words, without a picture; meanwhile, or
before, the tower learns to see, that is to make such tokens from pixels; then both are joined on pictures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..benchmarks.shapes.questions import TASKS
from ..benchmarks.shapes.sample import sample
from ..benchmarks.shapes.scene import SHAPE_COLOURS, TILED, Scene
from .low_rank import LowRank, add_low_rank
from .muon import Muon
from .objectives import OBJECTS, Loss
from .packed_attention import PACKED, attending_within
from .smollm2 import Parts, Tower, save_trained, what_tokens_show
from .smollm2_batches import QuestionBatch, pack_questions
from .training_batches import IGNORE, training_scenes

# First what can be read from one tile, and where it is: everything else builds on it.
FINDING = dict.fromkeys(TASKS, 0.0) | {"where": 5.0, "at": 1.0, "colour_read": 1.0, "shape_read": 1.0, "row": 1.5}
COUNTING = {"exist": 2.0, "count": 1.5, "compare": 1.5}
NOISE = 0.15  # of the length of an ideal token: the tower will not be perfect
RANDOM_WORDS = 2048  # of the vocabulary, in the softmax of a step beside the words of Shapes
_SAVE_EVERY = 50


class Rate(NamedTuple):
    """Learning rates of a stage at their peak: of the changes of the decoder, and of the tower."""

    changes: float
    tower: float = 0.0


class Lesson(NamedTuple):
    """One stage of training."""

    name: str
    steps: int
    rate: Rate
    weights: Mapping[str, float]
    pictures: bool  # whether the tower sees, or ideal tokens take its place
    images: int = 3
    per_image: int = 14


STAGES = (
    Lesson("find", 150, Rate(6e-4), FINDING, pictures=False),
    Lesson("reason", 150, Rate(6e-4), COUNTING, pictures=False),
    Lesson("see", 580, Rate(0.0, 2e-3), {}, pictures=True, images=16, per_image=0),
    Lesson("join", 100, Rate(4e-4, 1e-4), COUNTING, pictures=True),
)


class Student(nn.Module):
    """The decoder with its changes, the tower, and what they are asked."""

    def __init__(self, parts: Parts):
        super().__init__()
        self.parts = parts
        self.tower = Tower(parts.config())
        self.decoder = parts.decoder
        add_low_rank(self.decoder)
        for norm in self.decoder.modules():
            if type(norm).__name__.endswith("RMSNorm"):
                norm.to(torch.bfloat16)
        self.decoder.config._attn_implementation = PACKED
        self._embeddings = parts.embeddings.to(torch.bfloat16)
        self._words = torch.tensor(sorted(_words_of_shapes(parts)))

    @property
    def changes(self) -> list[nn.Parameter]:
        return [p for module in self.decoder.modules() if isinstance(module, LowRank) for p in module.parameters()]

    def loss(self, stage: Lesson, seed: str) -> Loss:
        rng = random.Random(seed)
        if not stage.per_image:
            scenes = training_scenes(rng, stage.images, OBJECTS, TILED)
            return self._seen(self._see(scenes), scenes)
        batch = pack_questions(self.parts, rng, stage.images, stage.per_image, stage.weights)
        if not stage.pictures:
            return self._told(batch, self._with_noise(self.ideal(batch.scenes)))
        tokens = self._see(batch.scenes)
        told, seen = self._told(batch, tokens), self._seen(tokens, batch.scenes)
        return Loss(told.value + 0.3 * seen.value, told.facts | seen.facts)

    def ideal(self, scenes: Sequence[Scene]) -> Tensor:
        """What the tower should give: the sum of two words for each token."""
        colour, shape = torch.cat([what_tokens_show(scene) for scene in scenes]).T
        return self.parts.colours[colour] + self.parts.shapes[shape]

    def _see(self, scenes: Sequence[Scene]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.tower(scenes).float()

    def _with_noise(self, tokens: Tensor) -> Tensor:
        return tokens + NOISE * tokens.norm(dim=-1, keepdim=True) / tokens.shape[1] ** 0.5 * torch.randn_like(tokens)

    def _told(self, batch: QuestionBatch, tokens: Tensor) -> Loss:
        """Cross-entropy of the responses, over the words of Shapes and random others."""
        image = (batch.ids == self.parts.image)[..., None]
        embeds = F.embedding(batch.ids, self._embeddings).masked_scatter(image, tokens.to(torch.bfloat16))
        everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)  # attention knows itself what is hidden
        with attending_within(batch.rows):
            hidden = self.decoder(
                inputs_embeds=embeds, position_ids=batch.positions, attention_mask=everything, use_cache=False
            ).last_hidden_state
        keep = batch.labels != IGNORE
        others = torch.randint(len(self._embeddings), (RANDOM_WORDS,))
        candidates = torch.unique(torch.cat([self._words, others]))
        logits = F.linear(hidden[keep], self._embeddings[candidates]).float()
        labels = torch.searchsorted(candidates, batch.labels[keep])
        value = F.cross_entropy(logits, labels)
        hits = (logits.argmax(-1) == labels).float().mean()
        return Loss(value, {"told": value.item(), "token_accuracy": hits.item()})

    def _seen(self, tokens: Tensor, scenes: Sequence[Scene]) -> Loss:
        """How far tokens are from the ideal ones, and from those of other colours and shapes."""
        labels = torch.cat([what_tokens_show(scene) for scene in scenes])
        full = labels[:, 0] < len(SHAPE_COLOURS)
        weights = torch.where(full, 1.0, 0.3)  # most tokens show nothing
        distance = (tokens - self.ideal(scenes)).pow(2).sum(1)
        total, facts = 0.1 * distance, {}
        for name, words, label in zip(
            ("colour", "shape"), (self.parts.colours, self.parts.shapes), labels.T, strict=True
        ):
            middle = words - words[:-1].mean(0)
            centre = self.parts.colours[:-1].mean(0) if name == "colour" else 0.0
            logits = 1.5 * ((tokens - centre) @ middle.T - middle.pow(2).sum(1) / 2)
            total = total + F.cross_entropy(logits, label, reduction="none")
            facts[f"{name}_seen"] = (logits.argmax(-1) == label)[full].float().mean().item()
        return Loss((total * weights).mean(), facts)


def _words_of_shapes(parts: Parts) -> set[int]:
    items = (sample("train", index) for index in range(600))
    texts = (text for item in items for text in (item.question, item.response, "<|im_end|>"))
    return {token for text in texts for token in parts.encode(text)}


class _Group(NamedTuple):
    """An optimiser, and the learning rate of its parameters at the peak."""

    optimiser: torch.optim.Optimizer
    peak: float


def _optimisers(student: Student, stage: Lesson) -> list[_Group]:
    found = []
    if stage.rate.changes:
        found.append(
            _Group(torch.optim.AdamW(student.changes, betas=(0.9, 0.98), weight_decay=0.0), stage.rate.changes)
        )
    if stage.rate.tower and stage.rate.changes:  # what it has learnt only adapts
        found.append(_Group(torch.optim.AdamW(student.tower.parameters(), weight_decay=0.0), stage.rate.tower))
    elif stage.rate.tower:
        named = list(student.tower.named_parameters())
        inner = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        outer = [p for name, p in named if p.ndim != 2 or "embed" in name]
        found.append(_Group(Muon(inner, lr=stage.rate.tower, weight_decay=0.02), stage.rate.tower))
        found.append(_Group(torch.optim.AdamW(outer, betas=(0.9, 0.98)), stage.rate.tower / 2))
    return found


def _share_of_peak(step: int, steps: int) -> float:
    """Of a learning rate: linear warm-up, constant for half of the stage, then cosine down to 5 %."""
    late = max(0.0, step / steps - 0.5) / 0.5
    return min(1.0, (step + 1) / 20) * (0.05 + 0.475 * (1 + math.cos(math.pi * late)))


def run_lesson(student: Student, stage: Lesson, work: Path, log: Callable[..., None]) -> None:
    """Train one stage, from its last checkpoint if there is one."""
    groups, checkpoint = _optimisers(student, stage), work / f"{stage.name}.pt"
    trained = {"changes": student.changes, "tower": list(student.tower.parameters())}
    step = 0
    if checkpoint.exists():
        kept = torch.load(checkpoint, weights_only=True)
        step = kept["step"]
        with torch.no_grad():
            for name, parameters in trained.items():
                for p, value in zip(parameters, kept[name], strict=True):
                    p.copy_(value)
        for group, state in zip(groups, kept["optimisers"], strict=True):
            group.optimiser.load_state_dict(state)
    tuned = [p for group in groups for each in group.optimiser.param_groups for p in each["params"]]
    began = time.monotonic()
    while step < stage.steps:
        for group in groups:
            for each in group.optimiser.param_groups:
                each["lr"] = group.peak * _share_of_peak(step, stage.steps)
            group.optimiser.zero_grad()
        loss = student.loss(stage, f"{stage.name}/{step}")
        loss.value.backward()
        nn.utils.clip_grad_norm_(tuned, 1.0)
        for group in groups:
            group.optimiser.step()
        step += 1
        if step % 10 == 0:
            facts = {name: round(value, 4) for name, value in loss.facts.items()}
            log(stage=stage.name, step=step, minutes=round((time.monotonic() - began) / 60, 2), **facts)
        if step % _SAVE_EVERY == 0 or step == stage.steps:
            kept = {name: [p.detach() for p in parameters] for name, parameters in trained.items()}
            states = [group.optimiser.state_dict() for group in groups]
            torch.save({"step": step, "optimisers": states, **kept}, checkpoint.with_suffix(".tmp"))
            os.replace(checkpoint.with_suffix(".tmp"), checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/pinhole-smollm2"), help="checkpoints and log")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "checkpoint_smollm2")
    parser.add_argument("--until", choices=[stage.name for stage in STAGES], help="the last stage to train")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    parts = Parts()
    student = Student(parts)

    def log(**entry: Any) -> None:
        print(json.dumps(entry), flush=True)
        with (args.work / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    names = [stage.name for stage in STAGES]
    last = names.index(args.until) + 1 if args.until else len(STAGES)
    for stage in islice(STAGES, last):
        run_lesson(student, stage, args.work, log)
    if last == len(STAGES):
        save_trained(parts, student.tower, args.out)
        (args.out / "training-log.jsonl").write_bytes((args.work / "log.jsonl").read_bytes())


if __name__ == "__main__":
    main()
