"""Read layers that mix positions without softmax: the gated delta rule, and short convolutions.

The rule is a function of the modelling file (an attribute of the layer in older versions of transformers). While a pass
is watched, one that records its inputs stands in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float32, Int
from torch import Tensor, nn

from .delta_rule import GatedDeltaRule, unit_length
from .layer import RowReader
from .mixer import Mixer, MixerCall, check_equal, convolution, is_recurrent

Start = Callable[[MixerCall], None]  # receives each call of a layer
_GLOBAL, _ATTRIBUTE = "torch_chunk_gated_delta_rule", "chunk_gated_delta_rule"


@contextmanager
def watched_mixers(mixers: Sequence[Mixer], start: Start) -> Iterator[None]:
    """While open, layers without softmax pass their calls to `start`."""
    with ExitStack() as stack:
        delta = [mixer.module for mixer in mixers if is_recurrent(mixer)]
        watch = _DeltaWatch(start)
        for module in delta:
            stack.callback(module.norm.register_forward_hook(watch.normalise).remove)
        for owner, name in {(id(o), n): (o, n) for o, n in map(_rule_of, delta)}.values():
            stack.enter_context(_replaced(owner, name, watch.rule))
        for mixer in mixers:
            if (conv := convolution(mixer)) is not None:
                stack.callback(mixer.module.in_proj.register_forward_hook(partial(_convolve, conv, start)).remove)
        yield


def _rule_of(module: Any) -> tuple[Any, str]:
    """Who holds the rule of a layer, and its name."""
    if hasattr(module, _ATTRIBUTE):
        return module, _ATTRIBUTE
    return sys.modules[type(module).__module__], _GLOBAL


@contextmanager
def _replaced(owner: Any, name: str, watch: Callable[..., Any]) -> Iterator[None]:
    own = getattr(owner, name)
    setattr(owner, name, partial(watch, own))
    try:
        yield
    finally:
        setattr(owner, name, own)


class _RuleCall(NamedTuple):
    """The inputs and the output of the rule: batch,positions,heads first."""

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor
    strength: Tensor
    output: Tensor

    def mixing(self, row: int, length: int) -> GatedDeltaRule:
        own = slice(0, length)
        query, key = (unit_length(x[row, own]).transpose(0, 1) for x in (self.query, self.key))
        return GatedDeltaRule(
            query * query.shape[-1] ** -0.5, key, self.decay[row, own].float().T, self.strength[row, own].float().T
        )


class _DeltaWatch:
    """Pairs a call of the rule with the gated norm after it."""

    def __init__(self, start: Start):
        self._start = start
        self._call: _RuleCall | None = None
        self._checked = False

    def rule(self, own: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor,
             **options: Any) -> Any:  # fmt: skip
        result = own(query, key, value, g=g, beta=beta, **options)
        self._call = _RuleCall(query, key, value, g, beta, result[0])
        return result

    def normalise(self, norm: Any, args: tuple[Any, ...], output: Tensor) -> None:
        """The norm divides each head by its size and multiplies it by a weight and a function of the gate."""
        if self._call is None:
            return
        call, self._call = self._call, None
        mixed = call.output
        if not self._checked:  # once for a pass: every layer uses the same rule
            length = mixed.shape[1]
            weights = call.mixing(0, length).reader()(torch.tensor([length - 1], device=mixed.device))
            rebuilt = weights @ call.value[0].transpose(0, 1).float()
            check_equal(rebuilt[:, 0], mixed[0, -1], "this model has a recurrent rule")
            self._checked = True
        epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
        factor = torch.rsqrt(mixed.float().pow(2).mean(-1, keepdim=True) + epsilon)
        weight = norm.forward(torch.ones_like(args[0]), *args[1:]).float() * (1 + epsilon) ** 0.5
        query, key, value = (x.transpose(1, 2) for x in (call.query, call.key, call.value))
        last = mixed[0, -1].float().flatten()
        self._start(MixerCall(query, key, value, last, gate=factor * weight.view(mixed.shape), mixing=call.mixing))


@dataclass(frozen=True)
class Shifts:
    """Heads that copy the values of a fixed number of positions before: the taps of a convolution."""

    taps: int
    device: torch.device
    sequences: int = 1  # whose heads follow each other

    def reader(self) -> RowReader:
        return self._rows

    def to(self, device: torch.device) -> Shifts:
        return Shifts(self.taps, device, self.sequences)

    def stacked(self, others: Sequence[Shifts]) -> Shifts:
        return Shifts(self.taps, self.device, self.sequences + sum(other.sequences for other in others))

    def _rows(self, receivers: Int[Tensor, " receivers"]) -> Float32[Tensor, "heads receivers seen"]:
        sources = torch.arange(int(receivers[-1]) + 1, device=self.device)
        back = torch.arange(self.taps, device=self.device)[:, None, None]
        return (receivers[None, :, None] - sources == back).float().repeat(self.sequences, 1, 1)


def _convolve(conv: nn.Conv1d, start: Start, projection: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
    """y_j = C_j ⊙ Σ_t w_t ⊙ (B x)_{j-t}: one head for each tap, which all share values and projection."""
    before, gate, x = output.chunk(3, dim=-1)
    value = before * x
    taps = conv.weight.detach()[:, 0].flip(-1).T  # of the position itself, of the one before, …
    count = len(taps)
    recent = value[0, -count:].flip(0).float()
    last = (recent * taps[: len(recent)].float()).sum(0)
    if conv.bias is not None:  # belongs to no source
        last = last + conv.bias
    shared = value[:, None]
    start(
        MixerCall(
            shared.expand(-1, count, -1, -1),
            shared,
            shared,
            last,
            gate=gate[:, :, None].expand(-1, -1, count, -1),
            mixing=lambda row, length: Shifts(count, value.device),
            taps=taps,
        )
    )
