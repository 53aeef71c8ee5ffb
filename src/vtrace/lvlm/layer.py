"""One attention layer as the model computed it: what the seam hands to whoever watches a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Layer:
    """One attention layer of one sequence, as the model computed it (after q/k-norm and RoPE)."""

    index: int
    query: Tensor  # H,T,d_h
    key: Tensor  # G,T,d_h
    value: Tensor  # G,T,d_h
    update: Tensor  # T,d: what the attention block adds to the residual stream
    projection: Tensor  # d,H·d_h: weight of the output projection, and of a norm behind it
    scaling: float
    mask: Tensor | None  # T,T; None for causal
    residual: Tensor  # T,d: the residual stream before the update was added
    gain: Tensor | None = None  # T: what a norm behind the projection multiplies each receiver with


Consumer = Callable[[Layer], None]
