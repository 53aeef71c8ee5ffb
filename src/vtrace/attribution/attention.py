"""Attention weights, one block of receivers at a time: nothing of size H×T×T is ever stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from ..lvlm.layer import Layer

BLOCK_BYTES = {"cpu": 6 << 20, "cuda": 128 << 20}  # for one block of weights: fits a CPU cache, or fills a GPU launch
LEAST_RECEIVERS = 16  # in one block, however long the sequence is
ReceiverSet = slice | Int[Tensor, " receivers"]  # a contiguous run of positions, or sorted positions


class AttentionBlock(NamedTuple):
    """A block of receivers, and their weights over all sources they can see."""

    receivers: ReceiverSet
    weights: Float32[Tensor, "heads receivers seen"]


class StackedHeads(NamedTuple):
    """What attention is computed from in one layer of several sequences: their heads follow each other."""

    query: Float[Tensor, "heads positions size"]
    key: Float[Tensor, "groups positions size"]
    scaling: float
    mask: Bool[Tensor, "positions positions"] | Float[Tensor, "positions positions"] | None  # the same for all

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> StackedHeads:
        query, key = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("query", "key"))
        return cls(query, key, layers[0].scaling, layers[0].mask)


def attention_rows(layer: Layer | StackedHeads, receivers: ReceiverSet | None = None) -> Iterator[AttentionBlock]:
    """Yield the attention weights of a layer, some or all receivers, block by block.

    The weights are in a buffer that the next block overwrites.
    """
    heads, length, _ = layer.query.shape
    wanted = slice(0, length) if receivers is None else receivers
    count = wanted.stop - wanted.start if isinstance(wanted, slice) else len(wanted)
    step = min(count, max(LEAST_RECEIVERS, BLOCK_BYTES[layer.query.device.type] // (4 * heads * length)))
    scratch = Scratch()
    query, key_t = layer.query.float(), layer.key.float().mT
    for block in _split(wanted, step):
        seen = _last(block) + 1 if layer.mask is None else length
        weights = grouped(query[:, block] * layer.scaling, key_t[..., :seen], scratch)
        _hide(weights, block, layer.mask)
        yield AttentionBlock(block, torch.softmax(weights, dim=-1, out=weights))


def _hide(
    weights: Float32[Tensor, "heads receivers seen"],
    block: ReceiverSet,
    mask: Bool[Tensor, "positions positions"] | Float[Tensor, "positions positions"] | None,
) -> None:
    """Give zero weight to what a receiver cannot see."""
    if mask is None:  # only columns after the first receiver can be later than their row
        first, last = _first(block), _last(block)
        own = torch.arange(first, last + 1, device=weights.device) if isinstance(block, slice) else block
        late = torch.arange(first, last + 1, device=weights.device) > own[:, None]
        weights[..., first:].masked_fill_(late, float("-inf"))
    elif mask.dtype == torch.bool:
        weights.masked_fill_(~mask[block], float("-inf"))
    else:
        weights += mask[block]


def _first(block: ReceiverSet) -> int:
    return block.start if isinstance(block, slice) else int(block[0])


def _last(block: ReceiverSet) -> int:
    return block.stop - 1 if isinstance(block, slice) else int(block[-1])


class Scratch:
    """A buffer for one block, reused for all: allocating fresh pages costs as much as the sums in them."""

    room: Tensor | None = None

    def take(self, size: int, like: Tensor) -> Float32[Tensor, " {size}"]:
        if self.room is None or len(self.room) < size:
            self.room = torch.empty(2 * size, device=like.device)  # causal blocks grow: do not allocate for each
        return self.room[:size]


def grouped(
    rows: Float32[Tensor, "heads rows size"], columns: Float32[Tensor, "groups size columns"], scratch: Scratch
) -> Float32[Tensor, "heads rows columns"]:
    """Batched product in which heads/groups consecutive matrices share the right-hand side; stored in `scratch`."""
    heads, count, size = rows.shape
    groups, _, width = columns.shape
    out = scratch.take(heads * count * width, rows).view(groups, heads // groups * count, width)
    torch.bmm(rows.reshape(groups, -1, size), columns, out=out)
    return out.view(heads, count, width)


def _split(receivers: ReceiverSet, step: int) -> Iterator[ReceiverSet]:
    if isinstance(receivers, Tensor):
        yield from receivers.split(step)
    else:
        for start in range(receivers.start, receivers.stop, step):
            yield slice(start, min(start + step, receivers.stop))
