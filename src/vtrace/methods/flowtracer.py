"""FlowTracer (Dong et al., 2026): flow from the inputs to the answer over head-mean attention."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..attribution.attention import attention_rows
from ..errors import InputError
from ..lvlm.layer import Layer
from ..types import ReadAt, Target
from .outcome import Outcome
from .session import TraceSession


def flowtracer(
    session: TraceSession,
    target: Target,
    *,
    mode: Literal["reach", "flow", "direct"] = "reach",
    first_layer: float = 1 / 3,
    last_layer: float = 2 / 3,
    receivers: ReadAt = "predictor",
) -> Outcome:
    """`mode` "reach": how much of a token gets to the answer over all paths; "flow": throughput of flow that starts
    at the inputs and arrives at the answer; "direct": the answer's own attention. Layers are given as fractions of
    the depth."""
    if not 0 <= first_layer < last_layer <= 1:
        raise InputError(
            f"layers from {first_layer} to {last_layer} are not a range; give fractions of the depth, between 0 and 1"
        )
    chosen = layer_range(len(session.layers()), first_layer, last_layer)
    capacity = attention_capacity(session, chosen)
    answer = session.receivers(target, receivers)
    details = {"layers": [chosen[0], chosen[-1]]}
    if mode == "direct":
        return Outcome(capacity[:, answer].mean(1), details)
    reach = reach_of(capacity, answer)
    if mode == "reach":
        return Outcome(reach, details)
    return Outcome(throughput(capacity, reach, answer, torch.tensor(session.inputs, device=session.device)), details)


def layer_range(depth: int, first: float = 1 / 3, last: float = 2 / 3) -> range:
    """Layers between two fractions of the depth, at least one."""
    low = min(round(first * depth), depth - 1)
    return range(low, max(round(last * depth), low + 1))


def attention_capacity(session: TraceSession, layers: range) -> Tensor:
    """Mean attention over a range of layers and all heads, source by receiver, strictly upper; float64."""
    length = len(session.trace)
    total = torch.zeros(length, length, device=session.device)
    for layer in (session.layers()[index] for index in layers):
        add_attention(total, layer)
    return capacity_of(total, len(layers))


def add_attention(total: Tensor, layer: Layer, receivers: slice | None = None) -> None:
    """Add the head-mean attention of a layer, receiver by source, for all receivers or some."""
    for rows, weights in attention_rows(layer, receivers):
        total[rows, : weights.shape[-1]] += layer.mean(weights.mean(0)).to(total.device)


def capacity_of(total: Tensor, layers: int) -> Tensor:
    """A sum over layers as a mean, source by receiver, strictly upper; float64. Changes the sum."""
    return total.tril_(-1).T.double() / layers


def reach_of(capacity: Tensor, answer: Tensor) -> Tensor:
    """The potential h: one on the answer, elsewhere the sum over outgoing edges. One triangular solve."""
    absorbing = torch.zeros(len(capacity), dtype=capacity.dtype, device=capacity.device)
    absorbing[answer] = 1
    moving = capacity * (1 - absorbing)[:, None]
    return _solve(moving, absorbing, upper=True)


def throughput(capacity: Tensor, reach: Tensor, answer: Tensor, inject: Tensor) -> Tensor:
    """Flow through every token if one unit starts evenly on the tokens of `inject` that can reach the answer."""
    step = conditioned(capacity, reach, answer)
    start = torch.zeros_like(reach)
    able = inject[reach[inject] > 0]
    if len(able):
        start[able] = 1 / len(able)
    flow = _solve(step.T, start, upper=False)
    leaving = flow * step.sum(1)
    return flow + leaving


def conditioned(capacity: Tensor, reach: Tensor, answer: Tensor) -> Tensor:
    """Transition probabilities conditioned on arrival: rows sum to one wherever the answer can be reached."""
    safe = torch.where(reach > 0, reach, 1.0)
    step = capacity * reach[None] / safe[:, None]
    step[reach <= 0] = 0
    step[answer] = 0
    return step


def _solve(edges: Tensor, start: Tensor, upper: bool) -> Tensor:
    identity = torch.eye(len(edges), dtype=edges.dtype, device=edges.device)
    return torch.linalg.solve_triangular(identity - edges, start[:, None], upper=upper, unitriangular=True)[:, 0]
