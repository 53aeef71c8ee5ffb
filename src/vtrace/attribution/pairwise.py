"""Stage 1: how much each position writes into each other, as a modality-centred pairwise matrix W (Eqs. 2 to 4).

Attention layers are added to W one at a time and not kept. The d-dimensional writes f are never
built: an inner product with the update Δ equals one in head space, ⟨v O_h, Δ⟩ = ⟨v, O_h Δ⟩, and
centring the values within a modality centres the writes, because the projection is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from ..lvlm.layer import Layer
from .attention import ReceiverSet, Scratch, attention_rows, grouped

EPSILON = 1e-12  # the paper's ε, in every denominator


class EdgeBlock(NamedTuple):
    """A block of receivers, and their edges from every source they see."""

    receivers: ReceiverSet
    edges: Float[Tensor, "receivers seen"]


class PairwiseMatrix:
    """Accumulates W over layers. W[i, j] is the contribution of source i to receiver j, for i < j."""

    def __init__(self, length: int, groups: Sequence[Int[Tensor, " _"]], device: torch.device | str = "cpu"):
        """`groups` are the position sets to centre within: image and question, or none."""
        self.groups = [group.to(device) for group in groups if len(group)]
        self.layers = 0
        self._rows = torch.zeros(length, length, device=device)  # receiver-major: blocks of rows are contiguous

    def add(self, layer: Layer, receivers: slice | None = None) -> None:
        """Add one layer: all receivers, or those that no other sequence with the same beginning has."""
        update = layer.update.float()
        direction = update / (update.norm(dim=-1, keepdim=True) + EPSILON)
        value = centre_values(layer.value.float(), self.groups)
        for rows, edges in edge_rows(layer, value, direction, receivers):
            self._rows[rows, : edges.shape[1]] += edges.to(self._rows.device)
        self.layers += 1

    def begin_as(self, other: PairwiseMatrix, length: int) -> None:
        """Take the first receivers from the matrix of a sequence that begins with the same tokens."""
        self._rows[:length, :length] = other._rows[:length, :length]

    def finish(self) -> Float32[Tensor, "positions positions"]:
        """W as source-by-receiver, strictly upper triangular, mean over layers. Ends the accumulation."""
        return self._rows.tril_(diagonal=-1).div_(self.layers).T


def edge_rows(
    layer: Layer,
    value: Float32[Tensor, "groups positions size"],
    direction: Float32[Tensor, "positions width"],
    receivers: slice | None = None,
) -> Iterator[EdgeBlock]:
    """Blocks of receivers, some or all, and [Σ_h α ⟨v O_h, direction⟩]₊ for every source they see.

    `value` are the layer's values, centred or not; `direction` is what each receiver's writes are projected on. A
    block is valid until the next one is asked for.
    """
    heads, length, size = layer.query.shape
    direction = direction if layer.gain is None else direction * layer.gain[:, None]
    wanted = receivers or slice(0, length)
    reading = (direction[wanted] @ layer.projection.float()).view(-1, heads, size).transpose(0, 1)  # O_h û_j: H,n,d_h
    for rows, edges in signed_edge_rows(layer, value, reading, wanted):
        yield EdgeBlock(rows, edges.relu_())


def signed_edge_rows(
    layer: Layer,
    value: Float32[Tensor, "groups positions size"],
    reading: Float32[Tensor, "heads receivers size"],
    wanted: slice,
) -> Iterator[EdgeBlock]:
    """The same with its sign, Σ_h α ⟨v, reading⟩: what the wanted receivers read is given in head space."""
    value_t, scratch = value.mT, Scratch()
    for rows, weights in attention_rows(layer, wanted):
        assert isinstance(rows, slice)
        own = slice(rows.start - wanted.start, rows.stop - wanted.start)
        aligned = grouped(reading[:, own], value_t[..., : weights.shape[-1]], scratch)
        edges = aligned[0].mul_(weights[0])
        for head in range(1, len(reading)):  # one pass over memory, instead of a product and then a sum
            edges.addcmul_(weights[head], aligned[head])
        yield EdgeBlock(rows, edges)


def centre_values(
    value: Float[Tensor, "groups positions size"], groups: Sequence[Int[Tensor, " _"]]
) -> Float[Tensor, "groups positions size"]:
    """Subtract from each position the mean over its group (Eq. 3); positions in no group are not changed."""
    value = value.clone() if groups else value
    for group in (g.to(value.device) for g in groups):  # layers of a large model may be on several devices
        value[:, group] -= value[:, group].mean(dim=1, keepdim=True)
    return value
