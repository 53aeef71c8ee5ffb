"""Ordered paths: only paths that can occur are counted. Our own variant of the paper's all-paths sum.

The paper sums paths over the mean of all layers, so a path may use a late layer before an early one. Here, inside a
forward pass, layers are used in order; between generated tokens, which the model reads again from the first layer, all
paths are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..attribution.pairwise import EPSILON, centre_values, edge_rows
from ..lvlm.layer import Layer
from ..types import Target
from .outcome import Outcome, check_finite
from .session import TraceSession

LARGEST = 0.9  # column sum that the largest column of the second level is scaled to


def ordered(
    session: TraceSession,
    target: Target,
    *,
    centring: bool = True,
    normalise: Literal["scaled", "columns"] = "scaled",
    own: bool = False,
) -> Outcome:
    """Scores are the flow into the target's predictors, directly or through earlier response tokens.

    `normalise` "scaled" divides the flow between response tokens by one number, so that its largest column
    sums to 0.9; "columns" makes every column of all flows sum to one. `own` counts the predictor's own stream.
    """
    start, length = session.trace.prompt_length, len(session.trace)
    groups = [torch.tensor(session.trace.positions(kind), device=session.device) for kind in ("image", "question")]
    flows = flows_into_predictors(session.layers(), start, length, groups if centring else [])
    received = received_flow(flows, start, target, normalise, own)
    return Outcome(received.scores, {"largest_column": received.largest_column})


class ReceivedFlow(NamedTuple):
    """Scores of all positions, and the largest column sum of the flow between response tokens."""

    scores: Tensor  # T; float64
    largest_column: float


def received_flow(
    flows: Tensor,
    start: int,
    target: Target,
    normalise: Literal["scaled", "columns"] = "scaled",
    own: bool = False,
) -> ReceivedFlow:
    """The second level: flow into the target, directly or through earlier response tokens (from `start` on)."""
    flows = flows.clone()
    if not own:
        predictors = _predictors(start, len(flows))
        flows[predictors, list(range(len(predictors)))] -= 1
    between = flows[start:].triu(1)  # response token by response token; only later ones read earlier ones
    if normalise == "columns":
        total = flows.sum(0).clamp_min(EPSILON)
        flows, between = flows / total, between / total
    else:
        between = between * (LARGEST / between.sum(0).max().clamp_min(EPSILON))
    wanted = torch.zeros(len(between), 1, dtype=torch.float64, device=flows.device)
    wanted[[p - start for p in target.positions]] = 1
    identity = torch.eye(len(between), dtype=torch.float64, device=flows.device)
    weight = torch.linalg.solve_triangular(identity - between, wanted, upper=True, unitriangular=True)
    return ReceivedFlow((flows @ weight)[:, 0], float(between.sum(0).max()))


def flows_into_predictors(layers: Sequence[Layer], start: int, length: int, groups: Sequence[Tensor]) -> Tensor:
    """Flow of every position into the predictor of every response token (from `start` on): T,n; float64.

    One column per response token is passed down from the top layer, r ← r + C r. Edges are shares of the
    residual, C[i, j] = [Σ_h α ⟨f̃_i, x_j⟩]₊ / ‖x_j‖², recomputed layer by layer and not kept. Values are centred
    within `groups`.
    """
    device = layers[0].query.device
    flows = torch.zeros(length, length - start, dtype=torch.float64, device=device)
    flows[_predictors(start, length), list(range(length - start))] = 1
    for layer in (each.to(device) for each in reversed(layers)):
        state = (layer.residual + layer.update).float()
        direction = state / state.pow(2).sum(-1, keepdim=True).clamp_min(EPSILON)
        value = centre_values(layer.value.float(), [g for g in groups if len(g)])
        more = torch.zeros_like(flows)
        for rows, edges in edge_rows(layer, value, direction):
            assert isinstance(rows, slice)
            edges = edges.tril(rows.start - 1)  # no token writes into itself
            more[: edges.shape[1]] += edges.double().T @ flows[rows]
        flows = flows + check_finite(more, layer.index)
    return flows


def _predictors(start: int, length: int) -> list[int]:
    """Predictors of all response tokens."""
    return Target("response", tuple(range(start, length))).receivers()
