"""Attention weights a block of receivers at a time: nothing of size H×T×T is ever stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK_BYTES = {"cpu": 6 << 20, "cuda": 128 << 20}  # for the weights of one block: what a cache, or a launch, likes best
Rows = slice | Tensor  # receivers: a contiguous run, or sorted positions


def attention_rows(
    query: Tensor, key: Tensor, scaling: float, mask: Tensor | None = None, rows: Rows | None = None
) -> Iterator[tuple[Rows, Tensor]]:
    """Yield receivers and their weights over all sources they can see: H,r,seen; float32.

    Query is H,T,d_h and key G,T,d_h, as the model multiplies them; `mask` is T,T, boolean or additive,
    and causal when there is none. The weights live in a buffer that the next block overwrites.
    """
    heads, length, _ = query.shape
    rows = slice(0, length) if rows is None else rows
    count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    step = min(count, max(16, BLOCK_BYTES[query.device.type] // (4 * heads * length)))
    scratch = Scratch()
    query, key_t = query.float() * scaling, key.float().mT
    for block in _split(rows, step):
        first, last = (block.start, block.stop - 1) if isinstance(block, slice) else (int(block[0]), int(block[-1]))
        seen = last + 1 if mask is None else length
        weights = grouped(query[:, block], key_t[..., :seen], scratch)
        if mask is None:  # only columns after the first receiver can be later than their row
            own = torch.arange(first, last + 1, device=query.device) if isinstance(block, slice) else block
            late = torch.arange(first, seen, device=query.device) > own[:, None]
            weights[..., first:].masked_fill_(late, float("-inf"))
        elif mask.dtype == torch.bool:
            weights.masked_fill_(~mask[block], float("-inf"))
        else:
            weights += mask[block]
        yield block, torch.softmax(weights, dim=-1, out=weights)


class Scratch:
    """Room for one block at a time, used again and again: fresh pages cost as much as the sums in them."""

    room: Tensor | None = None

    def take(self, size: int, like: Tensor) -> Tensor:
        if self.room is None or len(self.room) < size:
            self.room = torch.empty(2 * size, device=like.device)  # causal blocks grow: not every one anew
        return self.room[:size]


def grouped(rows: Tensor, columns: Tensor, scratch: Scratch) -> Tensor:
    """Product of H,r,d with G,d,c, where H/G consecutive heads share one of the G matrices; lives in `scratch`."""
    heads, count, size = rows.shape
    groups, _, width = columns.shape
    out = scratch.take(heads * count * width, rows).view(groups, heads // groups * count, width)
    torch.bmm(rows.reshape(groups, -1, size), columns, out=out)
    return out.view(heads, count, width)


def _split(rows: Rows, step: int) -> Iterator[Rows]:
    if isinstance(rows, Tensor):
        yield from rows.split(step)
    else:
        for start in range(rows.start, rows.stop, step):
            yield slice(start, min(start + step, rows.stop))
