"""Greedy decoding at the seam: the prompt may be any batch of decoder arguments, such as perturbed ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
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
    seam: Seam,
    blank: Arguments,
    embeds: Float[Tensor, "batch prompt width"],
    extras: Sequence[Tensor],
    ends: Collection[int],
) -> Iterator[GeneratedToken]:
    """The most likely next token of every row until it ends or there is no room left, step by step.

    Args:
        seam: the model.
        blank: decoder arguments of one sequence, the prompt and room for the response; positions and masks are the
            model's own.
        embeds: embeddings of the prompts, one row each.
        extras: further features of the prompts, such as DeepStack rows, in the same order.
        ends: tokens that end a response.
    """
    # Masks of the model's own cover all tokens, so no layer may forget any; else layers keep what their kind needs.
    cache = DynamicCache() if has_own_masks(blank) else DynamicCache(config=seam.decoder.config)
    live = torch.arange(len(embeds))
    embed, head = seam.model.get_input_embeddings(), seam.model.get_output_embeddings()
    start, length = embeds.shape[1], blank["inputs_embeds"].shape[1]
    none = [rows[:0] for rows in extras]
    for place in range(start, length):
        own = repeat_rows(window(blank, 0 if place == start else place - 1, place), len(live))
        own = seam.family.with_extras(own, [*extras] if place == start else none)
        call = {**own, "inputs_embeds": embeds, "past_key_values": cache, "use_cache": True}
        tokens = head(seam.decoder(**call).last_hidden_state[:, -1]).float().argmax(-1).cpu()
        yield from map(GeneratedToken, live.tolist(), tokens.tolist())
        more = torch.tensor([token not in ends for token in tokens.tolist()])
        if not more.any():
            return
        if not more.all():  # rows that have ended leave the batch
            live, tokens = live[more], tokens[more]
            cache.reorder_cache(more.nonzero()[:, 0].to(embeds.device))
        embeds = embed(tokens.to(embeds.device))[:, None]
