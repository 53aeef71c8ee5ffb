"""Edges of ordered paths: what each layer writes, as shares of the residual, and how flow passes down through them.

Flow is passed down from the top layer, and a forward pass ends there. So a session that keeps no layers keeps their
edges until the pass is over: a triangle for each layer, in half precision if there are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from ..attribution.pairwise import EPSILON, centre_values, edge_rows
from ..lvlm.layer import Layer
from .outcome import check_finite

EXACT_BYTES = 32 << 20  # of all edges as float32; more are kept as float16, each receiver's scaled to its largest
_TOP = 32768.0  # what the largest edge of a receiver is scaled to: edges 5·10⁸ times smaller still have all their bits


class ShareBlock(NamedTuple):
    """A block of receivers, the shares of their residual that each source wrote, and a factor for each receiver."""

    receivers: slice
    edges: Float[Tensor, "receivers seen"]
    factor: Float32[Tensor, "receivers 1"] | None = None


class LayerShares(NamedTuple):
    """The edges of one layer."""

    layer: int
    blocks: Iterable[ShareBlock]


def share_blocks(
    layer: Layer, groups: Sequence[Int[Tensor, " _"]], first: int = 0, relative: bool = True
) -> Iterator[ShareBlock]:
    """Edges [Σ_h α ⟨f̃_i, x̃_j⟩]₊ / ‖x̃_j‖² of the receivers from `first` on. A block is valid until the next one is asked
    for. Values are centred within `groups`; x̃ is the residual relative to others, or else all of it."""
    state = (layer.residual + layer.update).float()
    if relative:
        direction = _relative_direction(state, groups)
    else:
        direction = state / state.pow(2).sum(-1, keepdim=True).clamp_min(EPSILON)
    value = centre_values(layer.value.float(), [group for group in groups if len(group)])
    for rows, edges in edge_rows(layer, value, direction, first):
        assert isinstance(rows, slice)
        edges[:, rows.start :].tril_(-1)  # no token writes into itself
        yield ShareBlock(rows, edges)


def _relative_direction(
    state: Float32[Tensor, "positions width"], groups: Sequence[Int[Tensor, " _"]]
) -> Float32[Tensor, "positions width"]:
    """x̃ / ‖x̃‖², where x̃ is the part of a residual that other positions of its group do not have.

    Residuals of pretrained models have a large common part, in a few features, which says nothing about a position and
    hides the rest. It is the mean of residuals scaled to length 1, so that the few with massive activations count no
    more than others. Positions in no group form one.
    """
    length = state.norm(dim=-1, keepdim=True).clamp_min(EPSILON)
    own = state / length
    rest = torch.ones(len(state), dtype=torch.bool, device=state.device)
    for group in groups:
        rest[group] = False
    for group in (*groups, rest.nonzero()[:, 0]):
        if len(group) > 1:  # a single position has nothing in common with others
            own[group] -= own[group].mean(dim=0)
    return own / (own.pow(2).sum(-1, keepdim=True) * length).clamp_min(EPSILON)


class OrderedEdges:
    """The edges of all layers of a pass, given one layer at a time."""

    def __init__(
        self, length: int, layers: int, start: int, groups: Sequence[Int[Tensor, " _"]], relative: bool = True
    ):
        """`start` is the first response token: at the top layer, only predictors receive."""
        self._last, self._start, self._groups, self._relative = layers - 1, start, groups, relative
        self._exact = 2 * layers * length * length <= EXACT_BYTES
        self._layers: list[list[ShareBlock]] = []

    def add(self, layer: Layer) -> None:
        first = self._start - 1 if layer.index == self._last else 0
        groups = [group.to(layer.query.device) for group in self._groups]
        self._layers.append([self._kept(block) for block in share_blocks(layer, groups, first, self._relative)])

    def _kept(self, block: ShareBlock) -> ShareBlock:
        if self._exact:
            return block._replace(edges=block.edges.clone())
        largest = block.edges.amax(dim=1, keepdim=True).clamp_min(EPSILON)
        return ShareBlock(block.receivers, (block.edges * (_TOP / largest)).half(), largest / _TOP)

    def from_the_top(self) -> Iterator[LayerShares]:
        """The layers from the top down."""
        return (LayerShares(k, self._layers[k]) for k in reversed(range(len(self._layers))))


def passed_down(
    layers: Iterable[LayerShares], predictors: Sequence[int], length: int, device: torch.device
) -> Float32[Tensor, "length tokens"]:
    """Flow of every position into each predictor: r ← r + C r, from the top layer down."""
    flows = torch.zeros(length, len(predictors), device=device)
    flows[list(predictors), list(range(len(predictors)))] = 1
    for layer, blocks in layers:
        more = torch.zeros_like(flows)
        for rows, edges, factor in blocks:
            arriving = flows[rows] if factor is None else flows[rows] * factor.to(device)
            more[: edges.shape[1]].addmm_(edges.to(device).float().T, arriving)
        flows += check_finite(more, layer)
    return flows
