"""Relevance by gradient-weighted attention (Chefer et al., 2021): also the rule of LVLM-Interpret."""

from __future__ import annotations

import torch
from torch import Tensor

from ..attribution.attention import Scratch, attention_rows, grouped
from ..lvlm.gradients import Graph
from ..lvlm.layer import Layer
from ..types import Target
from .option_types import Backward
from .outcome import Outcome, check_finite
from .session import TraceSession


def chefer(session: TraceSession, target: Target, *, span: Backward = "sum") -> Outcome:
    """R grows by the positive part of attention times its gradient; the receivers' rows of R are the scores.

    `span` "sum" takes one backward pass from the sum of the target's logits; "tokens" takes one for each
    token and adds the rows, as LVLM-Interpret does while it generates.
    """
    where = session.receivers(target)
    if span == "sum":
        row = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
        row[where] = 1
        return Outcome(_relevance(session, row, session.gradient(target).by_head))
    total = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
    graph = Graph(session.seam, session.arguments, session.ids, target.positions)
    for number, receiver in enumerate(where.tolist()):
        row = torch.zeros_like(total)
        row[receiver] = 1
        total += _relevance(session, row, graph.gradient(graph.logits[number], keep=True).by_head)
        session.progress(number + 1, len(where))
    return Outcome(total)


def _relevance(session: TraceSession, row: Tensor, gradients: list[Tensor]) -> Tensor:
    for layer, by_head in zip(reversed(session.layers()), reversed(gradients), strict=True):
        row = row + check_finite(_through(row, layer, by_head), layer.index)
    return row


def _through(row: Tensor, layer: Layer, by_head: Tensor) -> Tensor:
    """`row` times the mean over heads of [a · dz/da]₊; the gradient of a weight is its value's alignment with dz/do."""
    out, scratch = torch.zeros_like(row), Scratch()
    value_t, reach = layer.value.float().mT, int(row.nonzero()[-1]) + 1
    for rows, weights in attention_rows(layer, slice(0, reach)):
        seen = weights.shape[-1]
        aligned = grouped(by_head[:, rows].float(), value_t[..., :seen], scratch)
        relevant = aligned.mul_(weights).relu_().mean(0)
        out[:seen] += row[rows] @ relevant.double()
    return out
