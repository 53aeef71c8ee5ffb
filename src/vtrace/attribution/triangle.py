"""W in blocks of receivers. A receiver sees no later position, so a triangle is stored: half of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

BLOCK = 128  # receivers; path sums keep one exponent for each block
LARGEST_SAVED = 4096  # tokens; the W of more would make a file of hundreds of megabytes


class RowBlock(NamedTuple):
    """A block of receivers, and their edges from all sources up to the last of them."""

    receivers: slice
    edges: Float[Tensor, "receivers sources"]


class Triangle:
    """Blocks of rows, one row per receiver. Reading goes over the blocks in order, forwards or backwards.

    Args:
        blocks: block k has the edges of receivers k·BLOCK to (k+1)·BLOCK.
        release: is called after block k has been used; a block in a file then needs no memory.
    """

    def __init__(self, blocks: Sequence[Float[Tensor, "_ _"]], release: Callable[[int], None] = lambda block: None):
        self._blocks, self._release = blocks, release
        self._largest: float | None = None

    @classmethod
    def zeros(cls, length: int, device: torch.device | str = "cpu") -> Triangle:
        return cls([torch.zeros(rows.stop - rows.start, rows.stop, device=device) for rows in block_rows(length)])

    @classmethod
    def on(cls, numbers: Float32[Tensor, " count"], length: int, release: Callable[[int, int], None]) -> Triangle:
        """The same on a flat array of `edge_count(length)` zeros; `release` is given a range of it that was used."""
        rows = block_rows(length)
        ends = np.cumsum([(block.stop - block.start) * block.stop for block in rows]).tolist()
        places = list(zip([0, *ends[:-1]], ends, strict=True))
        blocks = [numbers[a:b].view(-1, block.stop) for (a, b), block in zip(places, rows, strict=True)]
        return cls(blocks, lambda block: release(*places[block]))

    @classmethod
    def of(cls, matrix: Float[Tensor, "length length"]) -> Triangle:
        """Views of a strictly upper triangular matrix, source by receiver."""
        return cls([matrix.T[rows, : rows.stop] for rows in block_rows(len(matrix))])

    def __len__(self) -> int:
        return self._blocks[-1].shape[1]

    @property
    def device(self) -> torch.device:
        return self._blocks[0].device

    @property
    def largest(self) -> float:
        """The strongest edge."""
        if self._largest is None:
            self._largest = max(float(block.edges.max()) for block in self.blocks())
        return self._largest

    def blocks(self, backwards: bool = False) -> Iterator[RowBlock]:
        """Every block once. A block is valid until the next one is asked for."""
        rows = block_rows(len(self))
        for block in reversed(range(len(rows))) if backwards else range(len(rows)):
            yield RowBlock(rows[block], self._blocks[block])
            self._release(block)

    def add(self, receivers: slice, edges: Float32[Tensor, "receivers seen"]) -> None:
        """Add edges from the first sources on to consecutive receivers."""
        for block in range(receivers.start // BLOCK, (receivers.stop - 1) // BLOCK + 1):
            first = max(receivers.start, block * BLOCK)
            mine = self._blocks[block][first - block * BLOCK : receivers.stop - block * BLOCK]
            given = edges[first - receivers.start :][: len(mine), : mine.shape[1]]
            mine[:, : given.shape[1]] += given.to(mine.device)
            self._release(block)

    def average(self, layers: int) -> None:
        """Turn a sum over layers into W: no position is its own source, and edges are means."""
        self._largest = 0.0
        for rows, edges in self.blocks():
            edges[:, rows.start :].tril_(diagonal=-1)
            self._largest = max(self._largest, float(edges.div_(layers).max()))

    def dense(self) -> Float[Tensor, "length length"]:
        """The whole matrix, source by receiver: needs twice the memory of the triangle."""
        matrix = torch.zeros(len(self), len(self), dtype=self._blocks[0].dtype, device=self.device)
        for rows, edges in self.blocks():
            matrix[: rows.stop, rows] = edges.T
        return matrix


def block_rows(length: int) -> list[slice]:
    """The receivers of each block."""
    return [slice(start, min(start + BLOCK, length)) for start in range(0, length, BLOCK)]


def edge_count(length: int) -> int:
    """Numbers that a triangle stores."""
    return sum((rows.stop - rows.start) * rows.stop for rows in block_rows(length))
