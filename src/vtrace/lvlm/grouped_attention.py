"""Attention of one new token per sequence, without a copy of the keys and values for every head of a group.

With a mask, `transformers` repeats keys and values for all heads that share them, at every step. The heads of a group
can instead be read as several queries of one head: the same sums, over the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "vtrace_grouped"


@contextmanager
def attending_by_groups(decoder: Any) -> Iterator[None]:
    """While open, the decoder attends by groups if it reads one token per sequence. Afterwards as before."""
    before = decoder.config._attn_implementation
    if before != "sdpa":  # what the model needs instead
        yield
        return
    decoder.config._attn_implementation = _NAME
    try:
        yield
    finally:
        decoder.config._attn_implementation = before


def _attend(
    module: nn.Module,
    query: Float[Tensor, "batch heads new size"],
    key: Float[Tensor, "batch groups length size"],
    value: Float[Tensor, "batch groups length size_of_value"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Float[Tensor, "batch new heads size_of_value"], None]:
    (batch, heads, new, size), groups = query.shape, key.shape[1]
    if new > 1 or options.get("position_bias") is not None or options.get("softcap") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    several = query.view(batch, groups, heads // groups, size)
    found = F.scaled_dot_product_attention(several, key, value, attn_mask=attention_mask, scale=scaling)
    return found.reshape(batch, 1, heads, -1), None


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)
