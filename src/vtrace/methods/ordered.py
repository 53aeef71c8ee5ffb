"""Ordered paths: only paths that can occur are counted. Our own variant of the paper's all-paths sum.

The paper sums paths over the mean of all layers, so a path may use a late layer before an early one. Here, inside a
forward pass, layers are used in order; between generated tokens, which the model reads again from the first layer, all
paths are summed.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..attribution.pairwise import EPSILON, centre_values, edge_rows
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
    start = session.trace.prompt_length
    flows = flows_into_predictors(session, centring)
    if not own:
        predictors = _predictors(session)
        flows[predictors, list(range(len(predictors)))] -= 1
    between = flows[start:].triu(1)  # response token by response token; only later ones read earlier ones
    if normalise == "columns":
        total = flows.sum(0).clamp_min(EPSILON)
        flows, between = flows / total, between / total
    else:
        between = between * (LARGEST / between.sum(0).max().clamp_min(EPSILON))
    wanted = torch.zeros(len(between), 1, dtype=torch.float64, device=session.device)
    wanted[[p - start for p in target.positions]] = 1
    identity = torch.eye(len(between), dtype=torch.float64, device=session.device)
    weight = torch.linalg.solve_triangular(identity - between, wanted, upper=True, unitriangular=True)
    return Outcome((flows @ weight)[:, 0], {"largest_column": float(between.sum(0).max())})


def flows_into_predictors(session: TraceSession, centring: bool = True) -> Tensor:
    """Flow of every position into the predictor of every response token: T,n; float64.

    One column per response token is passed down from the top layer, r ← r + C r. Edges are shares of the
    residual, C[i, j] = [Σ_h α ⟨f̃_i, x_j⟩]₊ / ‖x_j‖², recomputed layer by layer and not kept.
    """
    length, start = len(session.trace), session.trace.prompt_length
    groups = [torch.tensor(session.trace.positions(kind), device=session.device) for kind in ("image", "question")]
    flows = torch.zeros(length, length - start, dtype=torch.float64, device=session.device)
    flows[_predictors(session), list(range(length - start))] = 1
    for layer in reversed(session.layers()):
        state = (layer.residual + layer.update).float()
        direction = state / state.pow(2).sum(-1, keepdim=True).clamp_min(EPSILON)
        value = centre_values(layer.value.float(), [g for g in groups if len(g)] if centring else [])
        more = torch.zeros_like(flows)
        for rows, edges in edge_rows(layer, value, direction):
            assert isinstance(rows, slice)
            edges = edges.tril(rows.start - 1)  # no token writes into itself
            more[: edges.shape[1]] += edges.double().T @ flows[rows]
        flows = flows + check_finite(more, layer.index)
    return flows


def _predictors(session: TraceSession) -> list[int]:
    """Predictors of all response tokens."""
    return Target("response", tuple(range(session.trace.prompt_length, len(session.trace)))).receivers()
