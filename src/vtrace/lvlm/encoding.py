"""From processor output for a prompt to processor output for prompt and response."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .families.family import ProcessorOutput
from .model import Lvlm


def with_response(lvlm: Lvlm, prompt: ProcessorOutput, ids: Sequence[int]) -> ProcessorOutput:
    """The same inputs for the whole sequence `ids`, of which the prompt is the beginning."""
    length = prompt["input_ids"].shape[1]
    inputs = dict(prompt)
    for name, tensor in prompt.items():
        if isinstance(tensor, Tensor) and tensor.shape == (1, length):
            value = int(name in lvlm.family.response_ones)
            inputs[name] = torch.nn.functional.pad(tensor, (0, len(ids) - length), value=value)
    inputs["input_ids"] = torch.tensor([ids], device=lvlm.device)
    return inputs
