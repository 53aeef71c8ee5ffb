"""Read layers that mix positions without softmax: the gated delta rule, Mamba-2, and short convolutions.

The rule is a function of the modelling file (an attribute of the layer in older versions of transformers), as is the
scan of Mamba-2. While a pass is watched, one that records its inputs stands in its place.
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

from ..errors import ModelError
from .delta_rule import GatedDeltaRule, unit_length
from .layer import RowReader
from .mixer import Mixer, MixerCall, check_equal, convolution, is_recurrent, is_state_space
from .state_space import StateSpace, step_sizes

Start = Callable[[MixerCall], None]  # receives each call of a layer
_GLOBAL, _ATTRIBUTE = "torch_chunk_gated_delta_rule", "chunk_gated_delta_rule"
_SCAN = "mamba2_chunk_scan"


@contextmanager
def watched_mixers(mixers: Sequence[Mixer], start: Start) -> Iterator[None]:
    """While open, layers without softmax pass their calls to `start`."""
    with ExitStack() as stack:
        recurrent = [mixer for mixer in mixers if is_recurrent(mixer)]
        watch = _RecurrentWatch(start)
        for mixer in recurrent:
            stack.callback(mixer.module.norm.register_forward_hook(watch.normalise).remove)
        for owner, name in {(id(o), n): (o, n) for o, n in map(_function_of, recurrent)}.values():
            stack.enter_context(_replaced(owner, name, watch.scan if name == _SCAN else watch.rule))
        for mixer in mixers:
            if (conv := convolution(mixer)) is not None:
                stack.callback(mixer.module.in_proj.register_forward_hook(partial(_convolve, conv, start)).remove)
        yield


def _function_of(mixer: Mixer) -> tuple[Any, str]:
    """Who holds the rule or the scan of a layer, and its name."""
    file = sys.modules[type(mixer.module).__module__]
    if is_state_space(mixer):
        if not hasattr(file, _SCAN):
            raise ModelError("Mamba layers of this model cannot be read with this version of transformers; update it")
        return file, _SCAN
    return (mixer.module, _ATTRIBUTE) if hasattr(mixer.module, _ATTRIBUTE) else (file, _GLOBAL)


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

    def gate(self, norm: Any, args: tuple[Any, ...]) -> Tensor:
        """The norm divides each head by its size and multiplies it by a weight and a function of the gate."""
        epsilon = _epsilon(norm)
        factor = torch.rsqrt(self.output.float().pow(2).mean(-1, keepdim=True) + epsilon)
        weight = norm.forward(torch.ones_like(args[0]), *args[1:]).float() * (1 + epsilon) ** 0.5
        return factor * weight.view(self.output.shape)


class _ScanCall(NamedTuple):
    """The inputs and the output of the scan: batch,positions,heads (or groups of heads) first."""

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor  # log of the factor of a state
    step: Tensor
    skip: Tensor  # of each head
    output: Tensor

    def mixing(self, row: int, length: int) -> StateSpace:
        own = slice(0, length)
        query, key = (x[row, own].float().transpose(0, 1) for x in (self.query, self.key))
        return StateSpace(query, key, self.decay[row, own].T, self.step[row, own].T, self.skip)

    def gate(self, norm: Any, args: tuple[Any, ...]) -> Tensor:
        """The norm multiplies features by a function of the gate, divides groups of them by their size, and multiplies
        them by a weight."""
        mixed, opened = args[0].float(), nn.functional.silu(args[1].float())
        groups = (mixed * opened).unflatten(-1, (-1, getattr(norm, "group_size", mixed.shape[-1])))
        factor = torch.rsqrt(groups.pow(2).mean(-1, keepdim=True) + _epsilon(norm)).expand_as(groups)
        return (norm.weight.float() * opened * factor.flatten(-2)).view(self.output.shape)


def _epsilon(norm: Any) -> float:
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))


class _RecurrentWatch:
    """Pairs a call of the rule, or of the scan, with the gated norm after it."""

    def __init__(self, start: Start):
        self._start = start
        self._call: _RuleCall | _ScanCall | None = None
        self._checked = False

    def rule(self, own: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor,
             **options: Any) -> Any:  # fmt: skip
        result = own(query, key, value, g=g, beta=beta, **options)
        self._call = _RuleCall(query, key, value, g, beta, result[0])
        return result

    def scan(self, own: Callable[..., Any], x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor,
             D: Tensor | None = None, **options: Any) -> Any:  # fmt: skip
        result = own(x, dt, A, B, C, D=D, **options)
        step = step_sizes(dt, options)
        skip = torch.zeros_like(A) if D is None else D.detach()
        output = result[0] if isinstance(result, tuple) else result
        self._call = _ScanCall(C, B, x, step * A.float(), step, skip.float(), output)
        return result

    def normalise(self, norm: Any, args: tuple[Any, ...], output: Tensor) -> None:
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
        value = call.value.transpose(1, 2)  # also where softmax has queries and keys, which `mixing` has here
        last = mixed[0, -1].float().flatten()
        self._start(MixerCall(value, value, value, last, gate=call.gate(norm, args), mixing=call.mixing))


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
