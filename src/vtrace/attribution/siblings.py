"""Stage 1 for responses to one prompt: W of sequences that begin with the same tokens, all in the same products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from ..lvlm.layer import Layer
from .attention import StackedHeads
from .pairwise import centre_values, direction_of, edge_rows, stacked_edges


class SiblingMatrices:
    """Accumulates the W of several sequences over layers.

    What receivers in the shared beginning get is the same for all, and is computed once.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        shared: int,
        groups: Sequence[Int[Tensor, " _"]],
        device: torch.device | str = "cpu",
    ):
        """`shared` is how many tokens all sequences begin with; `groups`, to centre within, are positions in it."""
        self.lengths, self.shared, self.layers = lengths, shared, 0
        self.groups = [group.to(device) for group in groups if len(group)]
        longest = max(lengths)
        self._shared_rows = torch.zeros(shared, shared, device=device)  # receiver-major
        self._own_rows = torch.zeros(len(lengths), longest - shared, longest, device=device)

    def add(self, layers: Sequence[Layer]) -> None:
        """Add one layer of every sequence, each padded to the longest of them."""
        self._add_shared(layers[0])
        if self._own_rows.shape[1]:
            self._add_own(layers)
        self.layers += 1

    def _add_shared(self, first: Layer) -> None:
        layer = _beginning(first, self.shared)
        value = centre_values(layer.value.float(), self.groups)
        for rows, edges in edge_rows(layer, value, direction_of(layer.update)):
            self._shared_rows[rows, : edges.shape[1]] += edges.to(self._shared_rows.device)

    def _add_own(self, layers: Sequence[Layer]) -> None:
        heads, longest, size = layers[0].heads, len(layers[0].update), layers[0].size
        own = slice(self.shared, longest)
        direction = direction_of(torch.stack([layer.update[own] for layer in layers]))
        if layers[0].gain is not None:
            direction *= torch.stack([layer.gain[own] for layer in layers if layer.gain is not None])[..., None]
        reading = (direction @ layers[0].projection.float()).view(len(layers), -1, heads, size).transpose(1, 2)
        if layers[0].gate is not None:
            gates = torch.stack([layer.gate[own] for layer in layers if layer.gate is not None])
            reading = reading * gates.transpose(1, 2)
        value = centre_values(torch.cat([layer.value for layer in layers]).float(), self.groups)
        for rows, edges in stacked_edges(StackedHeads.of(layers), value, reading.flatten(0, 1), own, len(layers)):
            block = self._own_rows[:, rows.start - own.start : rows.stop - own.start, : edges.shape[-1]]
            block += layers[0].whole(edges).relu_().to(block.device)

    def finish(self) -> list[Float32[Tensor, "positions positions"]]:
        """Every W as source-by-receiver, strictly upper triangular, mean over layers. Ends the accumulation."""
        return [self._matrix(row, length) for row, length in enumerate(self.lengths)]

    def _matrix(self, row: int, length: int) -> Float32[Tensor, "{length} {length}"]:
        rows = self._own_rows.new_zeros(length, length)
        rows[: self.shared, : self.shared] = self._shared_rows
        rows[self.shared :] = self._own_rows[row, : length - self.shared, :length]
        return rows.tril_(diagonal=-1).div_(self.layers).T


def _beginning(layer: Layer, length: int) -> Layer:
    """The layer of the first positions alone."""
    own = slice(0, length)
    return replace(
        layer,
        query=layer.query[:, own],
        key=layer.key[:, own],
        value=layer.value[:, own],
        update=layer.update[own],
        mask=None if layer.mask is None else layer.mask[..., own, own],
        residual=layer.residual[own],
        gain=None if layer.gain is None else layer.gain[own],
        gate=None if layer.gate is None else layer.gate[own],
    )
