"""Ordered paths: only paths that can occur are counted. Our own variant of the paper's all-paths sum.

The paper sums paths over the mean of all layers, so a path may use a late layer before an early one. Here, inside a
forward pass, layers are used in order; between generated tokens, which the model reads again from the first layer, all
paths are summed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..attribution.pairwise import EPSILON
from ..lvlm.layer import Layer
from ..system.wide_numbers import wide
from ..types import Kind, Target
from .ordered_edges import LayerShares, OrderedEdges, passed_down, share_blocks
from .outcome import Outcome
from .session import TraceSession

CENTRED: tuple[Kind, ...] = ("image", "question")
LARGEST = 0.9  # column sum that the largest column of the second level is scaled to


def ordered(
    session: TraceSession,
    target: Target,
    *,
    centring: bool = True,
    relative: bool = True,
    normalise: Literal["scaled", "columns"] = "scaled",
    own: bool = False,
) -> Outcome:
    """Scores are the flow into the target's predictors, directly or through earlier response tokens.

    `relative` takes shares of what a residual has beyond the mean of its kind; otherwise they are of all of it.
    `normalise` "scaled" divides the flow between response tokens by one number, so that its largest column
    sums to 0.9; "columns" makes every column of all flows sum to one. `own` counts the predictor's own stream.
    """
    start, length = session.trace.prompt_length, len(session.trace)

    def compute() -> Tensor:
        if not session.keeps_layers:
            return _streamed_flows(session, centring, relative)
        return flows_into_predictors(session.layers(), start, length, _groups(session, centring), relative)

    flows = session.once("ordered flows", ("ordered flows", centring, relative), compute)
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


def flows_into_predictors(
    layers: Sequence[Layer], start: int, length: int, groups: Sequence[Tensor], relative: bool = True
) -> Tensor:
    """Flow of every position into the predictor of every response token (from `start` on): T,n; float64.

    One column per response token is passed down from the top layer, r ← r + C r. Edges of kept layers are recomputed
    layer by layer, and not kept. Values are centred within `groups`.
    """
    device = layers[0].query.device
    top = len(layers) - 1
    from_the_top = (
        LayerShares(k, share_blocks(layers[k].to(device), groups, start - 1 if k == top else 0, relative))
        for k in reversed(range(len(layers)))
    )
    return wide(passed_down(from_the_top, _predictors(start, length), length, device))


def ordered_edges(session: TraceSession, centring: bool = True, relative: bool = True) -> OrderedEdges:
    """Empty edges, for the layers of a pass to be added to."""
    layers, start = len(session.seam.layers), session.trace.prompt_length
    return OrderedEdges(len(session.trace), layers, start, _groups(session, centring), relative)


def edges_key(centring: bool = True, relative: bool = True) -> Hashable:
    """The key of these edges among the folds of a session."""
    return "ordered edges", centring, relative


def _streamed_flows(session: TraceSession, centring: bool, relative: bool) -> Tensor:
    """The same flows from one instrumented pass of a session that keeps no layers."""
    start, length = session.trace.prompt_length, len(session.trace)
    key = edges_key(centring, relative)
    edges = session.folds.fold(key, lambda: ordered_edges(session, centring, relative))
    flows = wide(passed_down(edges.from_the_top(), _predictors(start, length), length, session.device))
    session.folds.release(key)
    return flows


def _groups(session: TraceSession, centring: bool) -> list[Tensor]:
    """Positions to centre values within."""
    kinds = [session.trace.positions(kind) for kind in CENTRED] if centring else []
    return [torch.tensor(positions, dtype=torch.long, device=session.device) for positions in kinds]


def _predictors(start: int, length: int) -> list[int]:
    """Predictors of all response tokens."""
    return Target("response", tuple(range(start, length))).receivers()
