"""Instrument a forward pass: every attention layer is passed to a consumer as the model computes it.

`transformers` routes attention through `AttentionInterface`. Ours calls SDPA for the output and records its inputs;
a hook on the output projection, or on a norm after it, supplies what the layer adds to the residual stream. Layers of
hybrid decoders that mix positions without attention are read in `hybrid.py`.
"""

from __future__ import annotations

import sys
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
from .hybrid import watched_mixers
from .layer import BatchConsumer, Layer
from .mixer import MixerCall, gated_query, mixer_of, mixing_layers
from .selection import for_heads, selected
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
    handles = [mixer.projection.register_forward_hook(recorder.project) for mixer in recorder.mixers]
    handles += [query.register_forward_hook(recorder.open_gate) for query in map(gated_query, recorder.mixers) if query]
    handles += [norm.register_forward_hook(recorder.normalise) for norm in recorder.norms if norm is not None]
    handles += [layer.register_forward_pre_hook(recorder.enter, with_kwargs=True) for layer in recorder.layers]
    try:
        with watched_mixers(recorder.mixers, recorder.start):
            yield
    finally:
        for handle in handles:
            handle.remove()
        config._attn_implementation = before
        _ACTIVE.reset(token)
    if recorder.seen != len(recorder.mixers):
        raise ModelError(
            f"only {recorder.seen} of {len(recorder.mixers)} layers could be read: this model's attention "
            "does not go through transformers' AttentionInterface, so it cannot be explained"
        )


class _Recorder:
    """Pairs the attention call of a layer with the output of its projection, or of a norm after that."""

    def __init__(self, decoder: Any, consumer: BatchConsumer, branch_norm: str, lengths: Sequence[int] | None):
        self.layers = mixing_layers(decoder)
        self.mixers = [mixer_of(layer) for layer in self.layers]
        norms = [getattr(layer, branch_norm, None) for layer in self.layers]
        self.norms = [None if isinstance(norm, nn.Identity) else norm for norm in norms]  # HyperCLOVA X can do without
        self.scales = [getattr(layer, "residual_multiplier", 1.0) for layer in self.layers]  # Granite has one
        self.consumer = consumer
        self.lengths = lengths
        self.seen = 0
        self._call: MixerCall | None = None
        self._gate: Tensor | None = None
        self._residual: Any = None

    def open_gate(self, query: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        self._gate = output

    def take_gate(self, heads: int) -> Float[Tensor, "batch positions heads size"] | None:
        """The gate of the attention call that is running: of each head, the second half of its query projection."""
        if self._gate is None:
            return None
        both, self._gate = self._gate, None
        return both.view(*both.shape[:2], heads, 2, -1)[..., 1, :].sigmoid()

    def enter(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._residual = args[0] if args else kwargs["hidden_states"]

    def start(self, call: MixerCall) -> None:
        announced = len(self.lengths or [1])
        if len(call.query) != announced:
            raise ModelError(f"the decoder was called with {len(call.query)} sequences instead of {announced}")
        self._call = call

    def project(self, projection: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if self._call is None:
            return
        self._call.check(args[0], self.seen)
        if self.norms[self.seen] is None:
            self._finish(self._call, output, _weight(projection, self.seen, output), head_group(projection))

    def normalise(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        """The norm is linear in each receiver's sum of writes: a weight per feature and a factor per receiver."""
        if self._call is not None:
            linear = linearised(norm, args[0].flatten(0, 1))
            projection = self.mixers[self.seen].projection
            matrix = linear.weight[:, None] * _weight(projection, self.seen, output).float()
            gain = linear.factor.view(output.shape[:2])
            self._finish(self._call, output, matrix, head_group(projection), gain)

    def _finish(
        self,
        call: MixerCall,
        update: Float[Tensor, "batch positions width"],
        projection: Float[Tensor, "width inputs"],
        group: ProcessGroup | None,
        gain: Float[Tensor, "batch positions"] | None = None,
    ) -> None:
        self._call = None
        if self.lengths is None and not _all_finite(update):
            raise ModelError(f"layer {self.seen} gave numbers that are not finite; try dtype float32 or bfloat16")

        if (scale := self.scales[self.seen]) != 1:
            update, projection = update * scale, projection * scale
        writing = call.projection(projection)

        def layer_of(row: int, length: int) -> Layer:
            own = slice(0, length)
            return Layer(
                self.seen,
                call.query[row, :, own],
                call.key[row, :, own],
                call.value[row, :, own],
                update[row, own],
                writing,
                call.scaling,
                call.mask_of(row, own),
                self._residual[row, own].to(update.device),  # read before accelerate moves it to a layer's own GPU
                None if gain is None else gain[row, own],
                group,
                gate=None if call.gate is None else call.gate[row, own],
                mixing=None if call.mixing is None else call.mixing(row, length),
                cap=call.cap,
                sink=call.sink,
            )

        self.consumer([layer_of(row, length) for row, length in enumerate(self.lengths or [update.shape[1]])])
        self.seen += 1


def _all_finite(update: Tensor) -> bool:
    """One sum answers almost always, at a fraction of the cost of a look at every number."""
    return bool(update.sum(dtype=torch.float32).isfinite()) or bool(torch.isfinite(update).all())


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
_RECEIVERS = 256  # at a time
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
    """SDPA that also records its inputs. Soft-capping and sinks, which SDPA lacks, are left to the model's own code."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    seen = attention_mask = selected(module, attention_mask, key.shape[2], kwargs)
    if seen is None and not kwargs.get("is_causal", getattr(module, "is_causal", True)):
        seen = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    cap, sink = kwargs.get("softcap"), kwargs.get("s_aux")
    if cap is None and sink is None:
        mask = for_heads(attention_mask, query.shape[1])
        output, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling, **kwargs)
    else:
        output = _eager(module, query, key, value, seen, scale, **kwargs)
    recorder = _ACTIVE.get()
    gate, last = recorder.take_gate(query.shape[1]), output[0, -1].flatten()
    sink = None if sink is None else sink.detach()
    recorder.start(MixerCall(query, key, value, last, scale, seen, gate, cap=cap, sink=sink))
    return output, None


def _eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, scale: float, **kwargs: Any
) -> Tensor:
    """The eager attention of the model's own file, for a few receivers at a time, so that no whole map is kept."""
    own = sys.modules[type(module).__module__].eager_attention_forward
    length, parts = query.shape[2], []
    for start in range(0, length, _RECEIVERS):
        rows = slice(start, min(start + _RECEIVERS, length))
        if seen is None:
            positions = torch.arange(length, device=query.device)
            mask = (positions <= positions[rows, None])[None, None]
        else:
            mask = seen[:, :, rows]
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
        parts.append(
            own(module, query[:, :, rows], key, value, for_heads(mask, query.shape[1]), scaling=scale, **kwargs)[0]
        )
    return torch.cat(parts, dim=1)


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
