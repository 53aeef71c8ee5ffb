"""Attention weights, one block of receivers at a time: nothing of size H×T×T is ever stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from ..lvlm.layer import AttentionMask, Layer, Mixing

Device = Literal["cpu", "cuda"]  # a CPU, or a GPU of any kind
BLOCK_BYTES: dict[Device, int] = {
    "cpu": 6 << 20,
    "cuda": 128 << 20,
}  # for one block of weights: fits a CPU cache, or fills a GPU launch
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
    mask: AttentionMask | None
    cap: float | None
    sink: Float[Tensor, " heads"] | None
    mixing: Mixing | None

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> StackedHeads:
        query, key = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("query", "key"))
        sink = None if layers[0].sink is None else layers[0].sink.repeat(len(layers))
        mixing = None if layers[0].mixing is None else layers[0].mixing.stacked([layer.mixing for layer in layers[1:]])
        return cls(query, key, layers[0].scaling, _stacked_mask(layers), layers[0].cap, sink, mixing)


def _stacked_mask(layers: Sequence[Layer]) -> AttentionMask | None:
    """One mask if it is the same for all sequences, else one for the heads of each."""
    masks = [layer.mask for layer in layers if layer.mask is not None]
    if not masks:
        return None
    if masks[0].ndim == 2 and all(torch.equal(mask, masks[0]) for mask in masks[1:]):
        return masks[0]
    return torch.cat([mask if mask.ndim == 3 else mask[None] for mask in masks])


def kind_of(device: torch.device) -> Device:
    return "cpu" if device.type == "cpu" else "cuda"


def attention_rows(layer: Layer | StackedHeads, receivers: ReceiverSet | None = None) -> Iterator[AttentionBlock]:
    """Yield the attention weights of a layer, some or all receivers, block by block.

    A layer without softmax has mixing weights instead, which can be negative and need not sum to one.
    The weights are in a buffer that the next block overwrites.
    """
    heads, length, _ = layer.query.shape
    wanted = slice(0, length) if receivers is None else receivers
    count = wanted.stop - wanted.start if isinstance(wanted, slice) else len(wanted)
    step = min(count, max(LEAST_RECEIVERS, BLOCK_BYTES[kind_of(layer.query.device)] // (4 * heads * length)))
    if layer.mixing is not None:
        read = layer.mixing.reader()
        for block in _split(wanted, step):
            yield AttentionBlock(block, read(_positions(block, layer.query.device)))
        return
    scratch = Scratch()
    query, key_t = layer.query.float(), layer.key.float().mT
    for block in _split(wanted, step):
        seen = _last(block) + 1 if layer.mask is None else length
        weights = grouped(query[:, block] * layer.scaling, key_t[..., :seen], scratch)
        if layer.cap is not None:
            weights.div_(layer.cap).tanh_().mul_(layer.cap)
        _hide(weights, block, layer.mask)
        kept = None if layer.sink is None else torch.sigmoid(weights.logsumexp(-1) - layer.sink[:, None].float())
        torch.softmax(weights, dim=-1, out=weights)
        yield AttentionBlock(block, weights if kept is None else weights.mul_(kept[..., None]))


def _hide(
    weights: Float32[Tensor, "heads receivers seen"],
    block: ReceiverSet,
    mask: AttentionMask | None,
) -> None:
    """Give zero weight to what a receiver cannot see. Consecutive heads share an entry of the mask."""
    if mask is None:  # only columns after the first receiver can be later than their row
        first, last = _first(block), _last(block)
        own = torch.arange(first, last + 1, device=weights.device) if isinstance(block, slice) else block
        late = torch.arange(first, last + 1, device=weights.device) > own[:, None]
        weights[..., first:].masked_fill_(late, float("-inf"))
        return
    seen = mask[..., block, :]
    groups = weights.view(len(seen), -1, *seen.shape[1:]) if seen.ndim == 3 else weights
    seen = seen[:, None] if seen.ndim == 3 else seen
    if mask.dtype == torch.bool:
        groups.masked_fill_(~seen, float("-inf"))
    else:
        groups += seen


def _positions(block: ReceiverSet, device: torch.device) -> Int[Tensor, " receivers"]:
    return torch.arange(block.start, block.stop, device=device) if isinstance(block, slice) else block


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
