"""What any method has to beat: chance, a prior over places, recency, and the raw attention of the target."""

from __future__ import annotations

from typing import Literal

import torch

from ..attention import attention_rows
from ..types import Target
from .choices import Receivers
from .work import Outcome, Work, one_hot


def random(work: Work, target: Target, *, seed: int = 0) -> Outcome:
    """Uniform noise."""
    return Outcome(torch.rand(len(work.trace), generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def centre(work: Work, target: Target, *, width: float = 0.35) -> Outcome:
    """A Gaussian around the middle of each picture, and around the middle of the question."""
    trace = work.trace
    scores = torch.zeros(len(trace), dtype=torch.float64)
    for panel in trace.panels:
        patches = [patch for patch in trace.patches if (patch.image, patch.view) == panel]
        where = torch.tensor([[patch.row, patch.column] for patch in patches], dtype=torch.float64)
        scores[[patch.position for patch in patches]] = _bell(where, width)
    question = trace.positions("question")
    scores[question] = _bell(torch.arange(len(question), dtype=torch.float64)[:, None], width)
    return Outcome(scores)


def _bell(where: torch.Tensor, width: float) -> torch.Tensor:
    """Height of a Gaussian over coordinates that are scaled to -1 … 1."""
    size = where.max(dim=0).values.clamp_min(1)
    return torch.exp(-((2 * where / size - 1) ** 2).sum(-1) / (2 * width**2))


def position(work: Work, target: Target) -> Outcome:
    """The later, the more."""
    return Outcome(torch.arange(1, len(work.trace) + 1, dtype=torch.float64))


def attention(
    work: Work, target: Target, *, receivers: Receivers = "predictor", layers: Literal["all", "last"] = "all"
) -> Outcome:
    """Attention weights of the target's receivers, averaged over heads and layers ("all" or "last")."""
    where = work.receivers(target, receivers)
    row = one_hot(len(work.trace), where, work.device)
    scores = torch.zeros_like(row)
    chosen = work.layers if layers == "all" else work.layers[-1:]
    for layer in chosen:
        for rows, weights in attention_rows(layer.query, layer.key, layer.scaling, layer.mask, where):
            scores[: weights.shape[-1]] += torch.einsum("r,hrs->s", row[rows].float(), weights) / len(weights)
    return Outcome(scores / len(chosen))
