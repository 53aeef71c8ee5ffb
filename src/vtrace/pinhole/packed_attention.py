"""Attention over packed rows: a prefix, and questions that see the prefix and themselves, but not each other.

A mask over the whole row would compute the scores between all questions, too: with fourteen of them, most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface

PACKED = "vtrace_packed"
_HIDDEN = -1e4  # added to the score of what a position cannot see


class PackedRows(NamedTuple):
    """Where the questions of a batch of rows are."""

    prefix: int  # its length
    where: Int[Tensor, "rows questions length"]  # positions of each question; beyond its end, any position after it
    back: Int[Tensor, "rows rest"]  # question x length + place of each position after the prefix


_ROWS: ContextVar[PackedRows] = ContextVar("packed_rows")


@contextmanager
def attending_within(rows: PackedRows) -> Iterator[None]:
    """What the attention of PACKED reads, here and in the backward pass."""
    token = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


def _packed_attention(
    module: nn.Module,
    query: Float[Tensor, "rows heads positions size"],
    key: Float[Tensor, "rows groups positions size"],
    value: Float[Tensor, "rows groups positions size"],
    attention_mask: Tensor | None,
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    prefix, where, back = _ROWS.get()
    rows, heads, _, size = query.shape
    groups, (_, questions, length) = key.shape[1], where.shape
    shared = heads // groups  # heads of a group
    first_keys, first_values = key[:, :, :prefix], value[:, :, :prefix]

    def causal(scores: Tensor) -> Tensor:
        """Scores of ... heads,receivers,sources, without later sources."""
        side = scores.shape[-1]
        parts = scores.unflatten(-2, (shared, side))
        hidden = torch.full((side, side), _HIDDEN, dtype=scores.dtype, device=scores.device).triu(1)
        return (parts + hidden).flatten(-3, -2)

    def questions_of(x: Tensor) -> Tensor:
        flat = where.view(rows, 1, questions * length, 1).expand(-1, x.shape[1], -1, size)
        return x.gather(2, flat).view(rows, x.shape[1], questions, length, size)

    early = query[:, :, :prefix].reshape(rows, groups, shared * prefix, size)
    out = causal(early @ first_keys.mT * scaling).softmax(-1) @ first_values
    out = out.view(rows, heads, prefix, size)

    asked = (
        questions_of(query).unflatten(1, (groups, shared)).transpose(2, 3).flatten(3, 4)
    )  # …,questions,shared*length
    keys, values = questions_of(key), questions_of(value)
    to_prefix = (asked.flatten(2, 3) @ first_keys.mT).unflatten(2, (questions, -1)) * scaling
    weights = torch.cat([to_prefix, causal(asked @ keys.mT * scaling)], dim=-1).softmax(-1)
    seen = (weights[..., :prefix].flatten(2, 3) @ first_values).unflatten(2, (questions, -1))
    seen = seen + weights[..., prefix:] @ values
    seen = seen.unflatten(3, (shared, length)).transpose(2, 3).reshape(rows, heads, questions * length, size)
    rest = seen.gather(2, back[:, None, :, None].expand(-1, heads, -1, size))
    return torch.cat([out, rest], dim=2).transpose(1, 2), None


AttentionInterface.register(PACKED, _packed_attention)
