"""Rows as verl's agent loop puts them into the TransferQueue."""

from __future__ import annotations

import torch

from vtrace.credit.verl_batch import VerlRow
from vtrace.lvlm.model import Lvlm
from vtrace.tracing.prompt import processed_prompt
from vtrace.types import Trace


def queue_row(lvlm: Lvlm, trace: Trace, advantage: float = 1.0) -> VerlRow:
    """A trace as a row: pictures as tensors only, without token types, and with a tensor of verl's own."""
    inputs = processed_prompt(lvlm, trace).inputs
    grid = inputs["image_grid_thw"]
    pictures = {"pixel_values": inputs["pixel_values"], "image_grid_thw": grid, "images_seqlens": grid[:, 1:].prod(1)}
    parts = [{"type": "image", "image": trace.images[0]}, {"type": "text", "text": trace.question}]
    messages = [{"role": "system", "content": trace.system}, {"role": "user", "content": parts}]
    prompt, response = trace.ids[: trace.prompt_length], trace.ids[trace.prompt_length :]
    advantages = torch.full((len(response),), advantage)
    return VerlRow(torch.tensor(prompt), torch.tensor(response), advantages, pictures, messages)
