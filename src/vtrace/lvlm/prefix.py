"""Decode the tokens before the first perturbed position once, not for every state."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from .families.family import Arguments, Family


@dataclass(frozen=True)
class Prefix:
    """What the first `length` tokens leave for later ones: keys and values, or the state of a recurrent layer."""

    length: int
    cache: DynamicCache


@torch.no_grad()
def read_prefix(family: Family, model: Any, arguments: Arguments, length: int) -> Prefix | None:
    """Decode the first tokens of one sequence. None if there are none, or if the model uses its own masks."""
    mask = arguments.get("attention_mask")
    if length == 0 or not (mask is None or (isinstance(mask, Tensor) and mask.ndim == 2)):
        return None
    head = {name: _cut(name, value, arguments, slice(length)) for name, value in arguments.items()}
    head = family.with_extras(head, [rows[:0] for rows in family.extras(arguments)])
    decoder = family.decoder(model)
    cache = DynamicCache(config=decoder.config)
    decoder(**{**head, "past_key_values": cache, "use_cache": True})
    return Prefix(length, cache)


def after(prefix: Prefix | None, arguments: Arguments) -> Arguments:
    """The rest of a batch of sequences that begin with the prefix."""
    if prefix is None:
        return arguments
    tail = {name: _cut(name, value, arguments, slice(prefix.length, None)) for name, value in arguments.items()}
    embeds, cache = arguments["inputs_embeds"], deepcopy(prefix.cache)
    cache.reorder_cache(torch.zeros(len(embeds), dtype=torch.long, device=embeds.device))  # a copy for every row
    mask = arguments.get("attention_mask")  # covers the prefix too, so it is not cut
    return {**tail, "attention_mask": mask, "past_key_values": cache, "use_cache": True}


def _cut(name: str, value: Any, arguments: Arguments, part: slice) -> Any:
    """Cut along the token axis: the second one of embeddings, the last one of everything else that has tokens."""
    if name == "inputs_embeds":
        return value[:, part]
    of_tokens = isinstance(value, Tensor) and value.shape[-1] == arguments["inputs_embeds"].shape[1]
    return value[..., part] if of_tokens else value
