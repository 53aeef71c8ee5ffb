"""Decode the tokens before the first perturbed position once, not for every state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache

from .families.family import Arguments, Family


class KeysAndValues(NamedTuple):
    """Keys and values of one layer for the tokens of the prefix."""

    keys: Float[Tensor, "1 groups length size"]
    values: Float[Tensor, "1 groups length size"]


@dataclass(frozen=True)
class Prefix:
    """Keys and values of the first `length` tokens, for later tokens to attend to."""

    length: int
    layers: list[KeysAndValues]


@torch.no_grad()
def read_prefix(family: Family, model: Any, arguments: Arguments, length: int) -> Prefix | None:
    """Decode the first tokens of one sequence. None if there are none, or if the model uses its own masks."""
    mask = arguments.get("attention_mask")
    if length == 0 or not (mask is None or (isinstance(mask, Tensor) and mask.ndim == 2)):
        return None
    head = family.with_extras(window(arguments, 0, length), [rows[:0] for rows in family.extras(arguments)])
    cache = DynamicCache()
    family.decoder(model)(**{**head, "past_key_values": cache, "use_cache": True})
    return Prefix(length, [KeysAndValues(layer.keys, layer.values) for layer in cache.layers])


def after(prefix: Prefix | None, arguments: Arguments) -> Arguments:
    """The rest of a batch of sequences that begin with the prefix."""
    if prefix is None:
        return arguments
    rows, cache = len(arguments["inputs_embeds"]), DynamicCache()
    for index, (keys, values) in enumerate(prefix.layers):
        cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), index)
    tail = window(arguments, prefix.length, arguments["inputs_embeds"].shape[1])
    return {**tail, "past_key_values": cache, "use_cache": True}


def window(arguments: Arguments, start: int, stop: int) -> Arguments:
    """Arguments of the tokens from `start` up to `stop`, which see all tokens before `stop`. Extras are not cut."""
    length = arguments["inputs_embeds"].shape[1]
    return {name: _cut(name, value, length, start, stop) for name, value in arguments.items()}


def _cut(name: str, value: Any, length: int, start: int, stop: int) -> Any:
    """Cut along the token axis: the second one of embeddings, the last one of everything else that has tokens. Masks
    also cover what comes before."""
    if isinstance(value, dict):  # a mask for each kind of layer
        return {key: _cut(name, part, length, start, stop) for key, part in value.items()}
    if name == "inputs_embeds":
        return value[:, start:stop]
    if not isinstance(value, Tensor) or value.shape[-1] != length:
        return value
    if name != "attention_mask":
        return value[..., start:stop]
    return value[..., :stop] if value.ndim == 2 else value[..., start:stop, :stop]
