"""GLIMPSE (Shen, 2025): gradient-weighted attention with head and layer weights, responses weighted by alignment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..attribution.attention import ReceiverSet, Scratch, attention_rows, grouped
from ..lvlm.gradients import Graph
from ..lvlm.layer import Layer
from ..types import Target
from .option_types import Backward
from .outcome import Outcome, check_finite
from .session import TraceSession


def glimpse(
    session: TraceSession,
    target: Target,
    *,
    span: Backward = "tokens",
    head_temperature: float = 1.0,
    depth_rate: float = 0.1,
) -> Outcome:
    """`span` "tokens" takes a backward pass for every target token, as published; "sum" takes one for all of them."""
    where = session.receivers(target)
    image, question = session.trace.positions("image"), session.trace.positions("question")
    graph = Graph(session.seam, session.arguments, session.ids, target.positions)
    confidence = graph.log_probabilities.detach().double().exp()
    every = torch.zeros(len(where), len(session.trace), dtype=torch.float64, device=session.device)
    every[torch.arange(len(where)), where] = 1
    if span == "sum":
        gradients = graph.gradient(graph.logits.sum()).by_head
        rows = _relevance(session, every, gradients, head_temperature, depth_rate)
    else:
        parts = []
        for number in range(len(where)):
            gradients = graph.gradient(graph.logits[number], keep=True).by_head
            parts.append(_relevance(session, every[number : number + 1], gradients, head_temperature, depth_rate))
            session.progress(number + 1, len(where))
        rows = torch.cat(parts)
    looked, asked = rows[:, image].mean(1), rows[:, question].mean(1)
    scores = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
    scores[image] = _weights(confidence * asked) @ rows[:, image]
    scores[question] = _weights(confidence * looked) @ rows[:, question]
    return Outcome(scores)


def _weights(values: Tensor) -> Tensor:
    return values / values.sum().clamp_min(1e-300)


def _relevance(session: TraceSession, rows: Tensor, gradients: list[Tensor], temperature: float, rate: float) -> Tensor:
    """Receivers' rows of R, k,T, up to the common factor of two per layer."""
    facts = [_head_facts(layer, g) for layer, g in zip(session.layers(), gradients, strict=True)]
    strength = torch.tensor([fact.size for fact in facts], dtype=torch.float64)
    depth = strength * torch.exp(rate * torch.arange(1, len(facts) + 1, dtype=torch.float64))
    depth = depth / depth.sum().clamp_min(1e-300)
    for layer, g in zip(reversed(session.layers()), reversed(gradients), strict=True):
        heads = torch.softmax(facts[layer.index].shares / temperature, dim=0)
        moved = _through(rows, layer, g, heads)
        rows = rows + check_finite(moved, layer.index) * (float(depth[layer.index]) / 2)
    return rows


class _HeadFacts(NamedTuple):
    """What the gradients say about the heads of a layer."""

    shares: Tensor  # H: attention-weighted share of positive gradient
    size: float  # of the gradient, summed over heads


def _head_facts(layer: Layer, by_head: Tensor) -> _HeadFacts:
    met = torch.zeros(len(layer.query), dtype=torch.float64, device=layer.query.device)
    positive, size = met.clone(), 0.0
    for _, weights, grads in _blocks(layer, by_head):
        visible = weights > 0
        size += float((grads * visible).sum(0).abs().sum())
        grads = grads.relu_().mul_(visible)
        positive += grads.sum((1, 2)).double()
        met += grads.mul_(weights).sum((1, 2)).double()
    return _HeadFacts(torch.where(positive > 0, met / positive.clamp_min(1e-300), 0.0), size)


def _through(rows: Tensor, layer: Layer, by_head: Tensor, heads: Tensor) -> Tensor:
    out = torch.zeros_like(rows)
    for where, weights, grads in _blocks(layer, by_head):
        edges = torch.einsum("h,hrs->rs", heads.float(), grads.relu_().mul_(weights))
        total = edges.sum(1, keepdim=True)
        edges = torch.where(total > 0, edges / total.clamp_min(1e-30), 0.0)
        out[:, : edges.shape[1]] += rows[:, where] @ edges.double()
    return out


class _GradientBlock(NamedTuple):
    """A block of receivers, their attention weights, and the gradients of those weights: H,r,seen."""

    receivers: ReceiverSet
    weights: Tensor
    gradients: Tensor


def _blocks(layer: Layer, by_head: Tensor) -> Iterator[_GradientBlock]:
    scratch, value_t = Scratch(), layer.value.float().mT
    for rows, weights in attention_rows(layer):
        yield _GradientBlock(
            rows, weights, grouped(by_head[:, rows].float(), value_t[..., : weights.shape[-1]], scratch)
        )
