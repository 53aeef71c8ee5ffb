"""One token-mixing layer as the model computed it: what an instrumented pass provides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload, runtime_checkable

import torch.distributed
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor
from torch.distributed import ProcessGroup

AttentionMask = (
    Bool[Tensor, "*groups positions positions"] | Float[Tensor, "*groups positions positions"]
)  # groups of heads
RowReader = Callable[[Int[Tensor, " receivers"]], Float32[Tensor, "heads receivers seen"]]


@runtime_checkable
class Mixing(Protocol):
    """How a layer without softmax mixes positions: each output is a fixed sum of values once the inputs are known."""

    def reader(self) -> RowReader:
        """A function that gives the weights of sorted receivers over all sources up to the last of them."""
        ...

    def to(self, device: torch.device) -> Mixing: ...

    def stacked(self, others: Sequence[Any]) -> Mixing:
        """One mixing with the heads of this one and then those of others of the same kind and length."""
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
    mask: AttentionMask | None  # None for causal
    residual: Float[Tensor, "positions width"]  # the residual stream before the update was added
    gain: Float[Tensor, " positions"] | None = None  # factor of a norm after the projection, for each receiver
    group: ProcessGroup | None = None  # processes that have the other heads of this layer; None if all are here
    gate: Float[Tensor, "positions heads size"] | None = None  # multiplies a receiver's heads before the projection
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

    def to(self, device: torch.device) -> Layer:
        """The same layer on a device."""
        if self.query.device == device:
            return self
        parts = {name: part for name, part in vars(self).items() if torch.is_tensor(part) or isinstance(part, Mixing)}
        moved: dict[str, Any] = {name: part.to(device) for name, part in parts.items()}
        return replace(self, **moved)

    def whole(self, part: Tensor) -> Tensor:
        """A sum over all heads, from the sum over those of this process. May change `part`."""
        if self.group is None:
            return part
        part = part.contiguous()
        torch.distributed.all_reduce(part, group=self.group)
        return part

    def mean(self, part: Tensor) -> Tensor:
        """A mean over all heads, from the mean over those of this process. May change `part`."""
        return part if self.group is None else self.whole(part).div_(self.group.size())


class LayersOn(Sequence[Layer]):
    """Recorded layers, each moved to one device when it is asked for: those of a large model are on several GPUs."""

    def __init__(self, layers: Sequence[Layer], device: torch.device):
        self._layers, self._device = layers, device

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, index: int) -> Layer: ...

    @overload
    def __getitem__(self, index: slice) -> LayersOn: ...

    def __getitem__(self, index: int | slice) -> Layer | LayersOn:
        if isinstance(index, slice):
            return LayersOn(self._layers[index], self._device)
        return self._layers[index].to(self._device)


Consumer = Callable[[Layer], None]
BatchConsumer = Callable[[list[Layer]], None]  # one layer of every sequence of a batch
