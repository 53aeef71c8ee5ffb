"""Greedy decoding at the seam: the prompt may be any batch of decoder arguments, such as perturbed ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import torch
from transformers import DynamicCache

from .families.family import Arguments, repeat_rows
from .prefix import has_own_masks, window
from .seam import Seam


class GeneratedToken(NamedTuple):
    """The next token of one row of a batch."""

    row: int
    token: int


@torch.no_grad()
def decode_greedily(
    seam: Seam, prompts: Arguments, start: int, blank: Arguments, ends: Collection[int]
) -> Iterator[GeneratedToken]:
    """The most likely next token of every row until it ends or there is no room left, step by step.

    Args:
        seam: the model.
        prompts: decoder arguments of a batch of sequences that begin with the prompts.
        start: length of the prompts.
        blank: decoder arguments of one sequence, the prompt and room for a response; positions and masks of generated
            tokens are taken from it, so they are the model's own.
        ends: tokens that end a response.
    """
    family, decoder, extras = seam.family, seam.decoder, seam.family.extras(prompts)
    embed, head = seam.model.get_input_embeddings(), seam.head
    # Masks of the model's own cover all tokens, so no layer may forget any; else layers keep what their kind needs.
    cache = DynamicCache() if has_own_masks(blank) else DynamicCache(config=decoder.config)
    live = torch.arange(len(prompts["inputs_embeds"]))
    call = family.with_extras(window(prompts, 0, start), extras)
    for place in range(start, blank["inputs_embeds"].shape[1]):
        state = decoder(**{**call, "past_key_values": cache, "use_cache": True}).last_hidden_state[:, -1]
        tokens = head(state).float().argmax(-1)
        yield from map(GeneratedToken, live.tolist(), tokens.tolist())
        more = torch.tensor([token not in ends for token in tokens.tolist()])
        if not more.any():
            return
        if not more.all():  # rows that have ended leave the batch
            live, tokens = live[more], tokens[more.to(tokens.device)]
            cache.reorder_cache(more.nonzero()[:, 0].to(tokens.device))
        own = repeat_rows(window(blank, place, place + 1), len(live))
        inputs = {name: value[:, None] for name, value in family.token_inputs(decoder, tokens).items()}
        call = {**own, "inputs_embeds": embed(tokens)[:, None], **inputs}
        call = family.with_extras(call, [rows[:0] for rows in extras])
