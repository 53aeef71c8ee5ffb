"""Baselines that any method should beat: chance, a prior on the centre, recency, and the target's raw attention."""

from __future__ import annotations

from typing import Literal

import torch

from ..attribution.attention import attention_rows
from ..types import ReadAt, Target
from .outcome import Outcome, one_hot
from .session import TraceSession


def random(session: TraceSession, target: Target, *, seed: int = 0) -> Outcome:
    """Uniform noise."""
    return Outcome(torch.rand(len(session.trace), generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def centre(session: TraceSession, target: Target, *, width: float = 0.35) -> Outcome:
    """A Gaussian around the middle of each picture, and around the middle of the question."""
    trace = session.trace
    scores = torch.zeros(len(trace), dtype=torch.float64)
    for panel in trace.panels:
        patches = [patch for patch in trace.patches if patch.panel == panel]
        where = torch.tensor([[patch.row, patch.column] for patch in patches], dtype=torch.float64)
        scores[[patch.position for patch in patches]] = _bell(where, width)
    question = trace.positions("question")
    scores[question] = _bell(torch.arange(len(question), dtype=torch.float64)[:, None], width)
    return Outcome(scores)


def _bell(where: torch.Tensor, width: float) -> torch.Tensor:
    """Height of a Gaussian over coordinates that are scaled to -1 … 1."""
    size = where.max(dim=0).values.clamp_min(1)
    return torch.exp(-((2 * where / size - 1) ** 2).sum(-1) / (2 * width**2))


def position(session: TraceSession, target: Target) -> Outcome:
    """The score increases with the position."""
    return Outcome(torch.arange(1, len(session.trace) + 1, dtype=torch.float64))


def attention(
    session: TraceSession, target: Target, *, receivers: ReadAt = "predictor", layers: Literal["all", "last"] = "all"
) -> Outcome:
    """Attention weights of the target's receivers, averaged over heads and layers ("all" or "last")."""
    where = session.receivers(target, receivers)
    row = one_hot(len(session.trace), where, session.device)
    scores = torch.zeros_like(row)
    chosen = session.layers() if layers == "all" else session.layers()[-1:]
    for layer in chosen:
        for rows, weights in attention_rows(layer, where):
            read = torch.einsum("r,hrs->s", row[rows].float(), weights) / len(weights)
            scores[: weights.shape[-1]] += layer.mean(read)
    return Outcome(scores / len(chosen))
