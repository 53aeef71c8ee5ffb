"""Decode the tokens before the first perturbed position once, not for every state."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from .families.family import IMAGE_ROWS, PER_TOKEN, Arguments, Family


@dataclass(frozen=True)
class Prefix:
    """What the first `length` tokens leave for later ones: keys and values, or the state of a recurrent layer."""

    length: int
    cache: DynamicCache


@torch.no_grad()
def read_prefix(family: Family, model: Any, arguments: Arguments, length: int) -> Prefix | None:
    """Decode the first tokens of one sequence. None if there are none, or if the model uses its own masks."""
    if length == 0 or has_own_masks(arguments):
        return None
    head = family.with_extras(window(arguments, 0, length), [rows[:0] for rows in family.extras(arguments)])
    decoder = family.decoder(model)
    cache = DynamicCache(config=decoder.config)
    decoder(**{**head, "past_key_values": cache, "use_cache": True})
    return Prefix(length, cache)


def after(prefix: Prefix | None, arguments: Arguments) -> Arguments:
    """The rest of a batch of sequences that begin with the prefix."""
    if prefix is None:
        return arguments
    tail = window(arguments, prefix.length, arguments["inputs_embeds"].shape[1])
    embeds, cache = arguments["inputs_embeds"], deepcopy(prefix.cache)
    cache.reorder_cache(torch.zeros(len(embeds), dtype=torch.long, device=embeds.device))  # a copy for every row
    return {**tail, "past_key_values": cache, "use_cache": True}


def has_own_masks(arguments: Arguments) -> bool:
    """Whether the model says itself which position sees which, instead of leaving that to the decoder."""
    mask = arguments.get("attention_mask")
    return not (mask is None or (isinstance(mask, Tensor) and mask.ndim == 2))


def window(arguments: Arguments, start: int, stop: int) -> Arguments:
    """Arguments of the tokens from `start` up to `stop`, which see all tokens before `stop`. Extras are not cut."""
    length = arguments["inputs_embeds"].shape[1]
    return {name: _cut(name, value, length, start, stop) for name, value in arguments.items()}


def _cut(name: str, value: Any, length: int, start: int, stop: int) -> Any:
    """Cut along the token axis: the second one of embeddings and the like, and the last one of everything else that
    has tokens. Masks also cover what comes before."""
    if name in IMAGE_ROWS:
        return value
    if isinstance(value, dict):  # a mask for each kind of layer
        return {key: _cut(name, part, length, start, stop) for key, part in value.items()}
    if name in PER_TOKEN:
        return None if value is None else value[:, start:stop]
    if not isinstance(value, Tensor) or value.shape[-1] != length:
        return value
    if name != "attention_mask":
        return value[..., start:stop]
    return value[..., :stop] if value.ndim == 2 else value[..., start:stop, :stop]
