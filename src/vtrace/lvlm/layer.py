"""One token-mixing layer as the model computed it: what an instrumented pass provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

RowReader = Callable[[Int[Tensor, " receivers"]], Float32[Tensor, "heads receivers seen"]]


@runtime_checkable
class Mixing(Protocol):
    """How a layer without softmax mixes positions: each output is a fixed sum of values once the inputs are known."""

    def reader(self) -> RowReader:
        """A function that gives the weights of sorted receivers over all sources up to the last of them."""
        ...


@dataclass(frozen=True)
class Layer:
    """One attention layer of one sequence, as the model computed it (after q/k-norm and RoPE)."""

    index: int
    query: Float[Tensor, "heads positions key_size"]
    key: Float[Tensor, "groups positions key_size"]
    value: Float[Tensor, "groups positions size"]
    update: Float[Tensor, "positions width"]  # what the attention block adds to the residual stream
    projection: Float[Tensor, "width heads*size"]  # weight of the output projection, and of a norm after it
    scaling: float
    mask: Bool[Tensor, "positions positions"] | Float[Tensor, "positions positions"] | None  # None for causal
    residual: Float[Tensor, "positions width"]  # the residual stream before the update was added
    gain: Float[Tensor, " positions"] | None = None  # factor of a norm after the projection, for each receiver
    gate: Float[Tensor, "positions heads size"] | None = (
        None  # what multiplies a receiver's heads before the projection
    )
    mixing: Mixing | None = None  # of a layer without softmax
    cap: float | None = None  # logits x are soft-capped to cap · tanh(x / cap) before the softmax
    sink: Float[Tensor, " heads"] | None = None  # logit of one more column of the softmax, which belongs to no position

    @property
    def heads(self) -> int:
        return len(self.query)

    @property
    def size(self) -> int:
        """Features of one head's values."""
        return self.value.shape[-1]


Consumer = Callable[[Layer], None]
BatchConsumer = Callable[[list[Layer]], None]  # one layer of every sequence of a batch
