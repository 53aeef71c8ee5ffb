"""Layers in which an index selects the sources that a receiver attends to.

Sparse kernels are told what was selected. Dense ones, such as ours, need it as a mask, as the model itself gives it to
transformers' own dense kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor


def has_index(mixer: Any) -> bool:
    """Whether a module that mixes positions selects sources by an index."""
    return getattr(mixer, "indexer", None) is not None


def selected(module: Any, mask: Tensor | None, sources: int, options: Mapping[str, Any]) -> Tensor | None:
    """The mask of an attention call, without what its index has left out: batch,1 or groups,receivers,sources."""
    if (chosen := options.get("block_indices")) is not None:  # blocks of sources, for each group of heads
        kept = _among(chosen, -(-sources // module.indexer.block_size))
        kept = kept.repeat_interleave(module.indexer.block_size, dim=-1)[..., :sources]
    elif (chosen := options.get("indices")) is not None:  # sources, for all heads
        kept = _among(chosen[:, None], sources)
    else:
        return mask
    if mask is None:
        receivers = kept.shape[-2]
        return kept.tril_(sources - receivers)
    return kept & (mask if mask.dtype == torch.bool else mask == 0)


def for_heads(mask: Tensor | None, heads: int) -> Tensor | None:
    """A mask with one entry for all heads, or one for each."""
    if mask is None or mask.shape[1] == 1:
        return mask
    return mask.repeat_interleave(heads // mask.shape[1], dim=1)


def _among(chosen: Tensor, count: int) -> Bool[Tensor, "batch groups receivers {count}"]:
    """Which of so many are chosen; -1 is none."""
    kept = torch.zeros(*chosen.shape[:-1], count + 1, dtype=torch.bool, device=chosen.device)
    return kept.scatter_(-1, chosen.long() % (count + 1), True)[..., :count]
