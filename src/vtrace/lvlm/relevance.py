"""Layer-wise relevance rules as modified gradients: forward values stay, and one backward pass gives relevance.

Every rule acts on instances of one model and is removed when the context closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..errors import ModelError
from .gradients import overridden
from .selection import for_heads, selected

Rule = Literal["attnlrp", "cp"]
_AttentionOutput = tuple[Tensor, None]  # what transformers expects of an attention function: output, no weights


def scaled(x: Tensor, factor: float) -> Tensor:
    """x, with its gradient multiplied by `factor`."""
    return x.detach() + factor * (x - x.detach())


def linear_norm(norm: Any, x: Tensor) -> Tensor:
    """An RMS norm whose factor is constant in the backward pass, so that it is linear in x."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
    wide = x.float() if x.dtype != torch.float64 else x
    factor = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon).detach()
    return norm.weight * (wide * factor).to(x.dtype)


@contextmanager
def relevance_rules(decoder: Any, rule: Rule) -> Iterator[None]:
    """While open, gradients through this decoder are relevances. The rule "cp" holds attention and gates constant."""
    config = decoder.config
    before = config._attn_implementation
    if before in _NAMES.values():
        raise ModelError("relevance rules are already active on this model; close the other context first")
    forwards: dict[nn.Module, Callable[..., Any]] = {}
    for module in decoder.modules():
        if type(module).__name__.endswith("RMSNorm"):
            _check_norm(module)
            forwards[module] = lambda x, norm=module: linear_norm(norm, x)
        elif all(hasattr(module, part) for part in ("gate_proj", "up_proj", "down_proj", "act_fn")):
            forwards[module] = lambda x, mlp=module: _gated(mlp, x, rule)
    for layer in decoder.layers:
        if layer.mlp not in forwards:
            raise ModelError(f"there is no relevance rule for {type(layer.mlp).__name__}, the MLP of this model")
    with overridden(forwards):
        config._attn_implementation = _NAMES[rule]
        try:
            yield
        finally:
            config._attn_implementation = before


def _check_norm(norm: Any) -> None:
    probe = torch.linspace(-1, 2, norm.weight.shape[0], dtype=norm.weight.dtype, device=norm.weight.device)
    with torch.no_grad():
        if not torch.allclose(linear_norm(norm, probe), norm(probe), rtol=1e-2, atol=1e-2):
            raise ModelError(f"{type(norm).__name__} is not a plain RMS norm; there is no relevance rule for it")


def _gated(mlp: Any, x: Tensor, rule: Rule) -> Tensor:
    """Identity rule for the activation, uniform rule for the product with the gate."""
    gate, up = mlp.gate_proj(x), mlp.up_proj(x)
    act = mlp.act_fn(gate).detach()
    if rule == "cp":
        return mlp.down_proj(act * up)
    wide = gate.detach().float()
    ratio = torch.where(wide.abs() > 1e-10, act.float() / wide, 0.0).to(x.dtype)
    act = act + (gate - gate.detach()) * ratio
    return mlp.down_proj(scaled(act * up, 0.5))


def _uniform(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> _AttentionOutput:
    """Each matrix product splits its relevance evenly: a quarter each for queries and keys, half for values."""
    mask = for_heads(selected(module, attention_mask, key.shape[2], kwargs), query.shape[1])
    return sdpa_attention_forward(module, scaled(query, 0.25), scaled(key, 0.25), scaled(value, 0.5), mask, **kwargs)


def _constant(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> _AttentionOutput:
    """All relevance passes through the values."""
    mask = for_heads(selected(module, attention_mask, key.shape[2], kwargs), query.shape[1])
    return sdpa_attention_forward(module, query.detach(), key.detach(), value, mask, **kwargs)


_NAMES: dict[Rule, str] = {"attnlrp": "vtrace_attnlrp", "cp": "vtrace_cplrp"}
_FORWARDS: dict[Rule, Callable[..., _AttentionOutput]] = {"attnlrp": _uniform, "cp": _constant}
for _rule, _forward in _FORWARDS.items():
    AttentionInterface.register(_NAMES[_rule], _forward)
    AttentionMaskInterface.register(_NAMES[_rule], sdpa_mask)
