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
from .attention import ReceiverSet, Scratch, StackedHeads, attention_rows, grouped
from .triangle import Triangle

EPSILON = 1e-12  # the paper's ε, in every denominator


class EdgeBlock(NamedTuple):
    """A block of receivers, and their edges from every source they see."""

    receivers: ReceiverSet
    edges: Float[Tensor, "receivers seen"]


class PairwiseMatrix:
    """Accumulates W over layers. W[i, j] is the contribution of source i to receiver j, for i < j."""

    def __init__(
        self,
        length: int,
        groups: Sequence[Int[Tensor, " _"]],
        device: torch.device | str = "cpu",
        rows: Triangle | None = None,
    ):
        """`groups` are the position sets to centre within: image and question, or none. `rows` are zeros to add to;
        without them they are on the device."""
        self.groups = [group.to(device) for group in groups if len(group)]
        self.layers = 0
        self._rows = Triangle.zeros(length, device) if rows is None else rows

    def add(self, layer: Layer) -> None:
        """Add one layer."""
        value = centre_values(layer.value.float(), self.groups)
        for rows, edges in edge_rows(layer, value, direction_of(layer.update)):
            assert isinstance(rows, slice)
            self._rows.add(rows, edges)
        self.layers += 1

    def finish(self) -> Triangle:
        """W, mean over layers. Ends the accumulation."""
        self._rows.average(self.layers)
        return self._rows


def direction_of(update: Float[Tensor, "*batch width"]) -> Float32[Tensor, "*batch width"]:
    """û: what a layer adds to the residual stream, scaled to length 1."""
    update = update.float()
    return update / (update.norm(dim=-1, keepdim=True) + EPSILON)


def edge_rows(
    layer: Layer,
    value: Float32[Tensor, "groups positions size"],
    direction: Float32[Tensor, "positions width"],
    first: int = 0,
) -> Iterator[EdgeBlock]:
    """Blocks of receivers, from `first` on, and [Σ_h α ⟨v O_h, direction⟩]₊ for every source they see.

    `value` are the layer's values, centred or not; `direction` is what each receiver's writes are projected on. A
    block is valid until the next one is asked for.
    """
    heads, length, size = layer.heads, len(layer.update), layer.size
    direction = direction if layer.gain is None else direction * layer.gain[:, None]
    reading = (direction[first:] @ layer.projection.float()).view(-1, heads, size).transpose(0, 1)  # O_h û_j: H,n,d_h
    reading = reading if layer.gate is None else reading * layer.gate[first:].transpose(0, 1)
    for rows, edges in stacked_edges(layer, value, reading, slice(first, length)):
        yield EdgeBlock(rows, layer.whole(edges[0]).relu_())


def stacked_edges(
    layer: Layer | StackedHeads,
    value: Float32[Tensor, "groups positions size"],
    reading: Float32[Tensor, "heads receivers size"],
    wanted: slice,
    sequences: int = 1,
) -> Iterator[tuple[slice, Float32[Tensor, "sequences receivers seen"]]]:
    """Signed edges of the wanted receivers, block by block, for sequences whose heads follow each other in the layer.

    `reading` is what each head of a wanted receiver reads from values: O_h û_j.
    """
    value_t, scratch = value.mT, Scratch()
    for rows, weights in attention_rows(layer, wanted):
        assert isinstance(rows, slice)
        own = slice(rows.start - wanted.start, rows.stop - wanted.start)
        aligned = grouped(reading[:, own], value_t[..., : weights.shape[-1]], scratch)
        aligned, weights = (x.view(sequences, -1, *x.shape[1:]) for x in (aligned, weights))
        edges = aligned[:, 0].mul_(weights[:, 0])
        for head in range(1, weights.shape[1]):  # one pass over memory, instead of a product and then a sum
            edges.addcmul_(weights[:, head], aligned[:, head])
        yield rows, edges


def centre_values(
    value: Float[Tensor, "groups positions size"], groups: Sequence[Int[Tensor, " _"]]
) -> Float[Tensor, "groups positions size"]:
    """Subtract from each position the mean over its group (Eq. 3); positions in no group are not changed."""
    value = value.clone() if groups else value
    for group in (g.to(value.device) for g in groups):  # layers of a large model may be on several devices
        value[:, group] -= value[:, group].mean(dim=1, keepdim=True)
    return value
