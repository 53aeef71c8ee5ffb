"""Instrument a forward pass: every attention layer is passed to a consumer as the model computes it.

`transformers` routes attention through `AttentionInterface`. Ours calls SDPA for the output and records its inputs;
a hook on the output projection, or on a norm after it, supplies what the layer adds to the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..errors import ModelError
from .layer import BatchConsumer, Layer
from .tensor_parallel import head_group


@contextmanager
def watched(
    decoder: Any, consumer: BatchConsumer, branch_norm: str = "", lengths: Sequence[int] | None = None
) -> Iterator[None]:
    """While open, every attention layer is passed to `consumer` as it is computed, for all sequences at once.

    `lengths` are those of the sequences of a right-padded batch; without them, the decoder has to be called with one
    sequence. Attention runs through SDPA, whatever kernel the model is configured with; no attention map is kept. The
    model's own setting is restored, also after an exception.
    """
    config = decoder.config
    recorder = _Recorder(decoder, consumer, branch_norm, lengths)
    before = config._attn_implementation
    token = _ACTIVE.set(recorder)
    config._attn_implementation = _NAME
    handles = [p.register_forward_hook(recorder.project) for p in recorder.projections]
    handles += [norm.register_forward_hook(recorder.normalise) for norm in recorder.norms if norm is not None]
    handles += [layer.register_forward_pre_hook(recorder.enter, with_kwargs=True) for layer in decoder.layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        config._attn_implementation = before
        _ACTIVE.reset(token)
    if recorder.seen != len(recorder.projections):
        raise ModelError(
            f"only {recorder.seen} of {len(recorder.projections)} layers could be read: this model's attention "
            "does not go through transformers' AttentionInterface, so it cannot be explained"
        )


class _Call(NamedTuple):
    """The inputs of one attention call."""

    query: Float[Tensor, "batch heads positions size"]
    key: Float[Tensor, "batch groups positions size"]
    value: Float[Tensor, "batch groups positions size"]
    scaling: float
    mask: Tensor | None  # 1 or batch,1,positions,positions; None for causal


class _Recorder:
    """Pairs the attention call of a layer with the output of its projection, or of a norm after that."""

    def __init__(self, decoder: Any, consumer: BatchConsumer, branch_norm: str, lengths: Sequence[int] | None):
        self.projections = [layer.self_attn.o_proj for layer in decoder.layers]
        self.norms = [getattr(layer, branch_norm, None) for layer in decoder.layers]
        self.consumer = consumer
        self.lengths = lengths
        self.seen = 0
        self._call: _Call | None = None
        self._residual: Any = None

    def enter(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._residual = args[0] if args else kwargs["hidden_states"]

    def start(self, call: _Call) -> None:
        announced = len(self.lengths or [1])
        if len(call.query) != announced:
            raise ModelError(f"the decoder was called with {len(call.query)} sequences instead of {announced}")
        self._call = call

    def project(self, projection: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if self._call is not None and self.norms[self.seen] is None:
            self._finish(self._call, output, _weight(projection, self.seen, output), head_group(projection))

    def normalise(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        """The norm is linear in each receiver's sum of writes: a weight per feature and a factor per receiver."""
        if self._call is not None:
            linear = linearised(norm, args[0].flatten(0, 1))
            projection = self.projections[self.seen]
            matrix = linear.weight[:, None] * _weight(projection, self.seen, output).float()
            gain = linear.factor.view(output.shape[:2])
            self._finish(self._call, output, matrix, head_group(projection), gain)

    def _finish(
        self,
        call: _Call,
        update: Float[Tensor, "batch positions width"],
        projection: Float[Tensor, "width inputs"],
        group: ProcessGroup | None,
        gain: Float[Tensor, "batch positions"] | None = None,
    ) -> None:
        self._call = None
        if self.lengths is None and not torch.isfinite(update).all():
            raise ModelError(f"layer {self.seen} gave numbers that are not finite; try dtype float32 or bfloat16")

        def layer_of(row: int, length: int) -> Layer:
            own = slice(0, length)
            return Layer(
                self.seen,
                call.query[row, :, own],
                call.key[row, :, own],
                call.value[row, :, own],
                update[row, own],
                projection,
                call.scaling,
                None if call.mask is None else call.mask[row if len(call.mask) > 1 else 0, 0, own, own],
                self._residual[row, own].to(update.device),  # read before accelerate moves it to a layer's own GPU
                None if gain is None else gain[row, own],
                group,
            )

        self.consumer([layer_of(row, length) for row, length in enumerate(self.lengths or [update.shape[1]])])
        self.seen += 1


class LinearisedNorm(NamedTuple):
    """An RMS norm at one point, as a weight per feature and a factor per position."""

    weight: Float[Tensor, " width"]
    factor: Float[Tensor, " positions"]


@torch.no_grad()
def linearised(norm: Any, x: Float[Tensor, "positions width"]) -> LinearisedNorm:
    """An RMS norm at x, however its weight is stored; any other norm is refused."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
    weight = norm.forward(torch.ones_like(x[:1])).float()[0] * (1 + epsilon) ** 0.5
    factor = torch.rsqrt(x.float().pow(2).mean(-1) + epsilon)
    rebuilt, given = x.float() * factor[:, None] * weight, norm.forward(x).float()
    if not torch.allclose(rebuilt, given, rtol=2e-2, atol=1e-2, equal_nan=True):  # overflow is found elsewhere
        raise ModelError(f"{type(norm).__name__} between attention and residual is not an RMS norm; not supported")
    return LinearisedNorm(weight, factor)


@torch.no_grad()
def _weight(projection: Any, layer: int, like: Tensor) -> Float[Tensor, "width inputs"]:
    """Weight of an output projection, for the heads of this process. Packed, offloaded or adapted ones are read by
    projecting the identity."""
    if isinstance(projection, nn.Linear):
        weight = projection.weight
        weight = weight.to_local() if isinstance(weight, DTensor) else weight
        packed = not weight.is_floating_point() or weight.element_size() == 1  # 8-bit floats have scales elsewhere
        if not packed and weight.ndim == 2 and not weight.is_meta:
            return weight.detach()
    try:
        units = torch.eye(projection.in_features, device=like.device, dtype=like.dtype)
        return (projection.forward(units) - projection.forward(torch.zeros_like(units[:1]))).T  # without the bias
    except Exception as error:
        kind = type(projection).__name__
        raise ModelError(
            f"layer {layer} has an output projection ({kind}) whose weights cannot be read; "
            "load the model without quantisation"
        ) from error


_NAME = "vtrace_capture"
_ACTIVE: ContextVar[_Recorder] = ContextVar("vtrace_recorder")


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """SDPA that also records its inputs. Kernels whose weights are not a plain softmax are refused."""
    for feature, words in (("softcap", "logit soft-capping"), ("s_aux", "attention sinks")):
        if kwargs.get(feature) is not None:
            raise ModelError(f"this model uses {words}, which would make the attribution wrong; it is not supported")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    seen = attention_mask
    if seen is None and not kwargs.get("is_causal", getattr(module, "is_causal", True)):
        seen = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    _ACTIVE.get().start(_Call(query, key, value, scale, seen))
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
