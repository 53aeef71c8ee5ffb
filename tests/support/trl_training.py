"""Small trainings with TRL on the embedded model: two prompts, four rollouts each, one or two steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from datasets import Dataset

from vtrace.credit.credit import Credit, TokenCredit
from vtrace.credit.rollouts import Rollout
from vtrace.credit.shapes_training import cpu_config, shapes_questions, shapes_rows
from vtrace.credit.trl import CreditGRPOTrainer
from vtrace.lvlm.model import Lvlm

PROMPTS, ROLLOUTS = 2, 4
SAMPLES = shapes_questions("train", 12, ("where", "at", "colour_read", "shape_read"))  # gold: up to 25 tokens
ROWS = PROMPTS * ROLLOUTS


@cache
def rows() -> Dataset:
    return shapes_rows(SAMPLES)


def every_other(completions: Sequence[Any], **others: Any) -> list[float]:
    """A reward that varies within every group, whatever the model says."""
    return [float(k % 2) for k in range(len(completions))]


class Watched(CreditGRPOTrainer):
    """Keeps what reaches the loss, and the losses."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.batches: list[dict[str, Any]] = []
        self.losses: list[float] = []

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        loss = super()._compute_loss(model, inputs)
        self.batches.append(inputs)
        self.losses.append(loss.item())
        return loss


class TokenValues(Credit):
    """Weights that are a function of the sampled tokens, so that a row that got another's weights is found out."""

    asked: list[list[Rollout]]

    def __init__(self) -> None:
        super().__init__("uniform")
        object.__setattr__(self, "asked", [])

    def assign(self, lvlm: Lvlm, rollouts: Sequence[Rollout]) -> list[TokenCredit]:
        self.asked.append(list(rollouts))
        values = [token_values(np.array(rollout.response)) for rollout in rollouts]
        return [TokenCredit(value, value, "assigned") for value in values]


def token_values(ids: np.ndarray) -> np.ndarray:
    """A weight for every token id, and one for its place."""
    return 1 + (ids % 13) / 10 + np.arange(len(ids)) / 100


def trainer_of(
    lvlm: Lvlm,
    folder: Any,
    credit: Credit | None,
    reward: Callable[..., list[float]] = every_other,
    dataset: Dataset | None = None,
    model: Any = None,
    peft_config: Any = None,
    **settings: Any,
) -> Watched:
    """A trainer of a copy of the model."""
    chosen = {"prompts": PROMPTS, "rollouts": ROLLOUTS, "max_completion_length": 28, "max_steps": 1, **settings}
    return Watched(
        copy.deepcopy(lvlm.model) if model is None else model,
        reward,
        args=cpu_config(str(folder), **chosen),
        train_dataset=rows() if dataset is None else dataset,
        processing_class=lvlm.processor,
        peft_config=peft_config,
        credit=credit,
    )
