"""Where a decoder layer mixes positions, and what one such call was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from .layer import Mixing

_PLACES = (  # in order of preference
    ("self_attn", "o_proj"),
    ("self_attn", "out_proj"),
    ("self_attn", "dense"),
    ("linear_attn", "out_proj"),
    ("conv", "out_proj"),
    ("mamba", "out_proj"),
    ("mixer", "out_proj"),
    ("mixer", "o_proj"),
)
_APART = ("mlp", "moe")  # kinds of blocks that treat every position apart
_TOLERANCE = 2e-2  # of a check that has to hold in half precision


class Mixer(NamedTuple):
    """The module of a decoder layer that mixes positions, and its output projection."""

    module: Any
    projection: Any


def mixing_layers(decoder: Any) -> list[Any]:
    """The layers that mix positions: all, unless MLPs are layers of their own, as in Nemotron-H."""
    return [layer for layer in decoder.layers if getattr(layer, "block_type", None) not in _APART]


def mixer_of(layer: Any) -> Mixer:
    """Attention, or what a hybrid decoder has in its place."""
    for name, projection in _PLACES:
        module = getattr(layer, name, None)
        if module is not None and hasattr(module, projection):
            return Mixer(module, getattr(module, projection))
    raise ModelError(f"{type(layer).__name__} has no attention that can be read, so this model cannot be explained")


def gated_query(mixer: Mixer) -> Any:
    """The query projection, if it also gives a gate: then it is twice as wide as what the output projection reads."""
    query = getattr(mixer.module, "q_proj", None)
    wide = query is not None and query.out_features == 2 * mixer.projection.in_features
    return query if wide else None


def is_recurrent(mixer: Mixer) -> bool:
    """Whether it decays a state."""
    return hasattr(mixer.module, "A_log")


def is_state_space(mixer: Mixer) -> bool:
    """Whether it is a Mamba layer, which also passes on its input; other recurrent layers are gated delta rules."""
    return is_recurrent(mixer) and hasattr(mixer.module, "D")


def convolution(mixer: Mixer) -> nn.Conv1d | None:
    """The convolution that mixes positions, if that is all that does."""
    found = None if is_recurrent(mixer) else getattr(mixer.module, "conv", None)
    return found if isinstance(found, nn.Conv1d) else None


def is_hybrid(mixer: Mixer) -> bool:
    return is_recurrent(mixer) or convolution(mixer) is not None or gated_query(mixer) is not None


class MixerCall(NamedTuple):
    """The inputs of one call that mixes positions, for all sequences of a batch."""

    query: Float[Tensor, "batch heads positions key_size"]
    key: Float[Tensor, "batch groups positions key_size"]
    value: Float[Tensor, "batch groups positions size"]
    last: Float[Tensor, " inputs"]  # what came out at the last position of the first sequence, before the gate
    scaling: float = 1.0
    mask: Tensor | None = None  # 1 or batch,1 or groups,positions,positions; None for causal
    gate: Float[Tensor, "batch positions heads size"] | None = None
    mixing: Callable[[int, int], Mixing] | None = None  # of a sequence of this length, for layers without softmax
    cap: float | None = None  # of soft-capped logits
    sink: Float[Tensor, " heads"] | None = None
    taps: Float[Tensor, "heads size"] | None = None  # what multiplies the projection of each head, for convolutions

    def mask_of(self, row: int, own: slice) -> Tensor | None:
        if self.mask is None:
            return None
        mask = self.mask[row if len(self.mask) > 1 else 0, :, own, own]
        return mask[0] if len(mask) == 1 else mask

    def projection(self, weight: Float[Tensor, "width inputs"]) -> Float[Tensor, "width _"]:
        """The projection of each head. The taps of a convolution are heads that share values and projection."""
        return weight if self.taps is None else torch.cat([weight * tap for tap in self.taps], dim=1)

    def check(self, given: Float[Tensor, "batch positions inputs"], layer: int) -> None:
        """Refuse a layer whose projection is given anything else than the output, gated as we read it."""
        gate = 1 if self.gate is None else self.gate[0, -1, : 1 if self.taps is not None else None].flatten()
        check_equal(self.last * gate, given[0, -1], f"layer {layer} has a gate or a norm before its projection")


def check_equal(found: Tensor, expected: Tensor, problem: str) -> None:
    """Refuse a model whose own numbers are not rebuilt; overflow is found elsewhere."""
    found, expected = found.detach().float(), expected.detach().float()
    limit = _TOLERANCE * float(expected.norm()) + 1e-6
    if float((found - expected).norm()) > limit:  # false for numbers that are not finite
        raise ModelError(f"{problem} that cannot be read, which would make the attribution wrong; it is not supported")
