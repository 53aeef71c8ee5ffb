"""Attention Rollout (Abnar & Zuidema, 2020): head-mean attention with the residual, multiplied over layers."""

from __future__ import annotations

import torch
from torch import Tensor

from ..attribution.attention import attention_rows
from ..lvlm.layer import Layer
from ..types import ReadAt, Target
from .outcome import Outcome, check_finite, one_hot
from .session import TraceSession


def rollout(
    session: TraceSession, target: Target, *, residual: float = 0.5, receivers: ReadAt = "predictor"
) -> Outcome:
    """Only the mean of the receivers' rows is needed, so one vector is multiplied from the top layer down."""
    row = one_hot(len(session.trace), session.receivers(target, receivers), session.device)
    for layer in reversed(session.layers()):
        row = residual * row + (1 - residual) * through_attention(row, layer)
        check_finite(row, layer.index)
    return Outcome(row)


def through_attention(row: Tensor, layer: Layer) -> Tensor:
    """`row` times the head-mean attention of a layer: T. All terms are positive, so float32 sums keep small ones."""
    heads = len(layer.query)
    out = torch.zeros_like(row)
    reach = int(row.nonzero()[-1]) + 1
    for rows, weights in attention_rows(layer, slice(0, reach)):
        share = row[rows].float().repeat(heads) / heads
        out[: weights.shape[-1]] += share @ weights.flatten(0, 1)
    return layer.mean(out)
