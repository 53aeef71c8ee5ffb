"""Changes of low rank to the matrices of a frozen decoder (LoRA): what is trained of a pretrained decoder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

RANK = 16
_SCALE = 2.0  # of a change, so that one learning rate serves both factors


class LowRank(nn.Module):
    """A frozen matrix in bfloat16, and a change in float32 that begins at zero."""

    frozen: Tensor

    def __init__(self, weight: Float[Tensor, "outputs inputs"]):
        super().__init__()
        outputs, inputs = weight.shape
        self.register_buffer("frozen", weight.detach().to(torch.bfloat16), persistent=False)
        self.down = nn.Parameter(torch.randn(RANK, inputs) / math.sqrt(inputs))
        self.up = nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        low = F.linear(x, self.down.to(x.dtype))
        return F.linear(x, self.frozen) + F.linear(low, (_SCALE * self.up).to(x.dtype))


def add_low_rank(decoder: nn.Module) -> None:
    """Freeze a decoder, and give every matrix of its layers a change that can be trained."""
    decoder.requires_grad_(False)
    for parent, name, matrix in list(_matrices(decoder)):
        setattr(parent, name, LowRank(matrix.weight))


class Change(NamedTuple):
    """`up @ down` is added to the matrix of this name."""

    name: str
    up: Float[Tensor, "outputs rank"]
    down: Float[Tensor, "rank inputs"]


def changes(decoder: nn.Module) -> Iterator[Change]:
    for name, module in decoder.named_modules():
        if isinstance(module, LowRank):
            yield Change(f"{name}.weight", _SCALE * module.up.detach(), module.down.detach())


def _matrices(decoder: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in decoder.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                yield parent, name, child
