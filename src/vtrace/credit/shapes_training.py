"""GRPO on Shapes with TRL: questions as rows of a data set, a configuration for a CPU, and greedy accuracy.

Questions come from the world that the half-trained checkpoint knows. Training and held-out questions are about
different layouts, see `Scene.split`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOConfig

from ..benchmarks.shapes.questions import TASKS
from ..benchmarks.shapes.sample import Sample, sample
from ..benchmarks.shapes.scene import NURSERY, Split, World
from ..errors import InputError
from ..pinhole.accuracy import BATCH, respond
from ..tracing.defaults import SYSTEM_PROMPT
from ..types import Gold
from .gold import gold_to_json
from .policy import undisturbed
from .reward import grade_response
from .special_tokens import unsampled_tokens

SHORT_TASKS = ("where", "at", "row", "exist", "count", "walk1", "colour_read", "shape_read")
SHORT_BUDGET = 56  # tokens; gold responses to the short tasks have up to 45


def shapes_questions(
    split: Split, number: int, tasks: Sequence[str] = SHORT_TASKS, world: World = NURSERY, start: int = 0
) -> list[Sample]:
    """The first `number` questions of these tasks from index `start` of a split on; tasks take turns."""
    if unknown := set(tasks) - set(TASKS):
        raise InputError(f"unknown task {sorted(unknown)[0]!r}; use some of: {', '.join(TASKS)}")
    names = list(TASKS)
    indices = (index for index in count(start) if names[index % len(names)] in tasks)
    return [sample(split, index, world) for index in islice(indices, number)]


def shapes_rows(samples: Sequence[Sample]) -> Dataset:
    """Rows as TRL takes them: a conversation, a picture, and what `final_answer_reward` needs."""
    return Dataset.from_list(
        [
            {
                "prompt": [
                    {"role": "system", "content": SYSTEM_PROMPT},
                    {"role": "user", "content": s.question},
                ],
                "image": s.image,
                "answer": s.answer,
                "gold": gold_to_json(_gold(s)),
                "key": s.key,
            }
            for s in samples
        ]
    )


def _gold(question: Sample) -> Gold:
    return Gold("words", (question.answer,))


def cpu_config(output_dir: str, prompts: int = 4, rollouts: int = 8, **others: Any) -> GRPOConfig:
    """GRPO on a CPU: `prompts` x `rollouts` responses and one update per step; nothing is saved or reported.

    `others` are further settings of `GRPOConfig`, and replace those chosen here.
    """
    settings = {
        "output_dir": output_dir,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": prompts * rollouts,
        "num_generations": rollouts,
        "max_completion_length": SHORT_BUDGET,
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
        "dataloader_num_workers": 0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    return GRPOConfig(**{**settings, **others})


def freeze_vision(model: Any) -> None:
    """Leave the vision tower as it is: reasoning is trained, not seeing. Equal pictures are then encoded once.

    TRL shows the picture of a prompt once per rollout, and again for the loss. What a frozen tower sees does not
    change, so it remembers the latest pictures; the results are the same.
    """
    tower: Any = model.model.visual
    tower.requires_grad_(False)
    tower.forward = _Remembered(tower.forward)


class _Remembered:
    """A vision tower that encodes every picture once, and keeps the latest."""

    def __init__(self, forward: Callable[..., Any], size: int = 64):
        self.forward, self.size = forward, size
        self.known: dict[tuple[Any, ...], Any] = {}

    @torch.no_grad()
    def __call__(self, hidden_states: Tensor, grid_thw: Tensor, **options: Any) -> Any:
        parts = hidden_states.split(grid_thw.prod(-1).tolist())
        keys = [(*grid.tolist(), part.cpu().numpy().tobytes()) for grid, part in zip(grid_thw, parts, strict=True)]
        for key, grid, part in zip(keys, grid_thw, parts, strict=True):
            if key not in self.known:
                self.known[key] = self.forward(part, grid_thw=grid[None], **options)
        found = [self.known[key] for key in keys]
        self.known = dict(list(self.known.items())[-self.size :])
        joined = {name: _concatenated([output[name] for output in found]) for name in found[0]}
        return type(found[0])(**joined)


def _concatenated(values: Sequence[Any]) -> Any:
    """Outputs for several pictures as one; those of DeepStack are lists with one entry per layer."""
    if isinstance(values[0], Tensor):
        return torch.cat(list(values))
    return [torch.cat(entries) for entries in zip(*values, strict=True)]


def train_norms_only(model: Any) -> None:
    """Leave all weights as they are but the gains of the decoder's norms: few numbers, which few rewards can teach."""
    for name, weights in model.named_parameters():
        weights.requires_grad_(weights.requires_grad and "norm" in name)


def greedy_accuracy(model: Any, processor: Any, samples: Sequence[Sample], limit: int = SHORT_BUDGET) -> list[bool]:
    """Whether the greedy response to each question has the right final answer."""
    return _accuracy(model, processor, samples, limit)


def _accuracy(model: Any, processor: Any, samples: Sequence[Sample], limit: int, **generation: Any) -> list[bool]:
    order = sorted(range(len(samples)), key=lambda k: (samples[k].task, len(samples[k].response)))
    right = [False] * len(samples)
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        chosen = [samples[k] for k in part]
        with undisturbed(model):
            responses = respond(model, processor, chosen, [s.image for s in chosen], limit, **generation)
        for k, response in zip(part, responses, strict=True):
            right[k] = grade_response(response, _gold(samples[k])) == 1
    return right


def sampled_accuracy(
    model: Any, processor: Any, samples: Sequence[Sample], limit: int, temperature: float, top_p: float, seed: int = 0
) -> list[bool]:
    """The same for responses that are sampled as in training; the state of the random numbers is not changed."""
    never = unsampled_tokens(model, processor.tokenizer)
    sampling = dict(do_sample=True, temperature=temperature, top_p=top_p, top_k=0, suppress_tokens=never)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return _accuracy(model, processor, samples, limit, **sampling)
