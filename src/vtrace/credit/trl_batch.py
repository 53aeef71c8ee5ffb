"""From a batch of TRL to rollouts: without padding, with the pictures of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from trl.trainer.utils import split_pixel_values_by_grid

from ..lvlm.families.family import ProcessorOutput
from ..lvlm.model import Lvlm
from .rollouts import Rollout, from_tokens
from .trainer_rows import user_texts

_PER_ROW = (
    "pixel_values",
    "image_grid_thw",
    "image_position_ids",
    "pixel_attention_mask",
    "spatial_shapes",
    "image_sizes",
)
_PER_TOKEN = ("token_type_ids", "mm_token_type_ids")


def trl_rollouts(
    lvlm: Lvlm, batch: Mapping[str, Any], examples: Sequence[Mapping[str, Any]], rows: Sequence[int]
) -> list[Rollout]:
    """Rollouts of some rows.

    Args:
        lvlm: the policy.
        batch: what `_generate_and_score_completions` returns: prompts padded on the left, completions on the right.
        examples: the rows of the data set, one per row of the batch.
        rows: which rows.
    """
    split = split_pixel_values_by_grid(dict(batch))
    rollouts = []
    for row in rows:
        prompt = batch["prompt_mask"][row].bool()
        completion = batch["completion_mask"][row].bool()
        rollouts.append(
            from_tokens(
                lvlm,
                batch["prompt_ids"][row][prompt].tolist(),
                batch["completion_ids"][row][completion].tolist(),
                {**_token_inputs(split, row, prompt), **_picture_inputs(split, row)},
                user_texts(examples[row].get("prompt", "")),
            )
        )
    return rollouts


def _token_inputs(split: Mapping[str, Any], row: int, prompt: Tensor) -> ProcessorOutput:
    return {name: split[name][row, : len(prompt)][prompt][None] for name in _PER_TOKEN if name in split}


def _picture_inputs(split: Mapping[str, Any], row: int) -> ProcessorOutput:
    """The tensors of one row: TRL splits most of them into a list; others have one entry per picture, or per row."""
    pictures = split.get("num_images")
    if pictures is not None and not pictures[row]:
        return {}
    found: ProcessorOutput = {}
    for name in _PER_ROW:
        value = split.get(name)
        if isinstance(value, Tensor) and pictures is not None and len(value) == sum(pictures):
            value = torch.split(value, pictures)
        if isinstance(value, Tensor):
            found[name] = value[row : row + 1]
        elif value is not None:
            found[name] = value[row]
    return found
