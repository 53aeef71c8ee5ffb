"""One attention layer as the model computed it: what the seam hands to whoever watches a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Layer:
    """One attention layer of one sequence, as the model computed it (after q/k-norm and RoPE)."""

    index: int
    query: Float[Tensor, "heads positions size"]
    key: Float[Tensor, "groups positions size"]
    value: Float[Tensor, "groups positions size"]
    update: Float[Tensor, "positions width"]  # what the attention block adds to the residual stream
    projection: Float[Tensor, "width heads*size"]  # weight of the output projection, and of a norm behind it
    scaling: float
    mask: Bool[Tensor, "positions positions"] | Float[Tensor, "positions positions"] | None  # None for causal
    residual: Float[Tensor, "positions width"]  # the residual stream before the update was added
    gain: Float[Tensor, " positions"] | None = None  # what a norm behind the projection multiplies each receiver with


Consumer = Callable[[Layer], None]
