"""Mamba-2 as a mixing matrix: y_j = Σ_i A_ji x_i, for one block of receivers at a time.

A state of keys by features is decayed, added to and read at every position: S ← e^g S + s b xᵀ, and y = Sᵀc + d x.
Nothing is corrected, so A is known entry by entry: A_ji = s_i ⟨c_j, b_i⟩ e^(g_{i+1} + … + g_j), and d more for i = j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from ..system.wide_numbers import wide
from .layer import RowReader


@dataclass(frozen=True)
class StateSpace:
    """Inputs of the scan for one sequence. Consecutive heads share queries c and keys b."""

    query: Float32[Tensor, "groups positions key_size"]
    key: Float32[Tensor, "groups positions key_size"]
    decay: Float32[Tensor, "heads positions"]  # log of the factor that the state is multiplied by
    step: Float32[Tensor, "heads positions"]  # what multiplies each input
    skip: Float32[Tensor, " heads"]  # how much of its own input a position passes on

    def reader(self) -> RowReader:
        since = wide(self.decay).cumsum(-1)  # of long sequences, whose differences would be lost in float32
        shared = len(self.decay) // len(self.key)

        def rows(receivers: Int[Tensor, " receivers"]) -> Float32[Tensor, "heads receivers seen"]:
            seen = int(receivers[-1]) + 1
            sources = torch.arange(seen, device=receivers.device)
            own = receivers.to(since.device)
            gap = (since[:, own, None] - since[:, None, :seen]).to(self.key.device, torch.float32)
            gap.masked_fill_(sources > receivers[:, None], float("-inf"))
            matches = self.query[:, receivers] @ self.key[:, :seen].mT
            weights = gap.exp_().mul_(self.step[:, None, :seen])
            weights.unflatten(0, (-1, shared)).mul_(matches[:, None])
            weights[:, torch.arange(len(receivers), device=receivers.device), receivers] += self.skip[:, None]
            return weights

        return rows

    def to(self, device: torch.device) -> StateSpace:
        return StateSpace(*(part.to(device) for part in vars(self).values()))

    def stacked(self, others: Sequence[StateSpace]) -> StateSpace:
        every = [vars(scan).values() for scan in (self, *others)]
        return StateSpace(*(torch.cat(parts) for parts in zip(*every, strict=True)))


def step_sizes(
    raw: Float[Tensor, "batch positions heads"], options: Mapping[str, Any]
) -> Float32[Tensor, "batch positions heads"]:
    """What the scan makes of its raw steps, by the options it was called with."""
    bias = options.get("dt_bias")
    step = raw if bias is None else raw + bias.to(raw.dtype)
    step = torch.nn.functional.softplus(step) if options.get("dt_softplus") else step
    return step.clamp(*options.get("dt_limit", (0.0, float("inf")))).detach().float()
