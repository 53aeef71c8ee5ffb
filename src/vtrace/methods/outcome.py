"""What a method returns: a score for every position, and further details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import ModelError
from .option_types import Sign


@dataclass(frozen=True)
class Outcome:
    """Scores as the method computes them, before they become shares."""

    scores: Tensor  # T
    details: dict[str, Any] = field(default_factory=dict)


def signed_as(sign: Sign, scores: Tensor, details: dict[str, Any] | None = None) -> Outcome:
    """Scores that can be negative: `sign` "positive" drops what counts against the target, "absolute"
    takes its size, "signed" keeps it. The signed copy is kept in the details."""
    forms = {"positive": scores.clamp_min(0), "absolute": scores.abs(), "signed": scores}
    return Outcome(forms[sign], {**(details or {}), "signed": scores.tolist()})


def check_finite(values: Tensor, layer: int) -> Tensor:
    """Refuse numbers that would silently become zero."""
    if not torch.isfinite(values).all():
        raise ModelError(f"scores are not finite at layer {layer}; try dtype float32 or bfloat16")
    return values


def one_hot(length: int, positions: Sequence[int] | Tensor, device: torch.device) -> Tensor:
    """T: each position's share of one; float64."""
    row = torch.zeros(length, dtype=torch.float64, device=device)
    row[positions] = 1 / len(positions)
    return row
