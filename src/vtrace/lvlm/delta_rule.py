"""The gated delta rule as a mixing matrix: o_j = Σ_i A_ji v_i, for one block of receivers at a time.

A state S of keys by features is decayed, corrected and read at every position:
S ← e^g S, then S ← S + β k (v − Sᵀk)ᵀ, and o = Sᵀq. It is linear in the values, so A follows from queries, keys, decays
g and strengths β alone. Inside a chunk A is a triangular solve. Before it, a receiver's query is carried back chunk by
chunk: each chunk says what was written into the state, and what the state before it became.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from .layer import RowReader

CHUNK = 128  # positions; carrying a query over a chunk costs size² per head, reading what it wrote size × CHUNK
_EPSILON = 1e-6  # of the rule's normalisation of queries and keys


@dataclass(frozen=True)
class GatedDeltaRule:
    """Inputs of the rule for one sequence."""

    query: Float32[Tensor, "heads positions key_size"]  # normalised and scaled
    key: Float32[Tensor, "heads positions key_size"]  # normalised
    decay: Float32[Tensor, "heads positions"]  # log of the factor that the state is multiplied by
    strength: Float32[Tensor, "heads positions"]

    def reader(self) -> RowReader:
        return _Reader(self).rows

    def to(self, device: torch.device) -> GatedDeltaRule:
        return GatedDeltaRule(*(part.to(device) for part in vars(self).values()))

    def stacked(self, others: Sequence[GatedDeltaRule]) -> GatedDeltaRule:
        every = [vars(rule).values() for rule in (self, *others)]
        return GatedDeltaRule(*(torch.cat(parts) for parts in zip(*every, strict=True)))


def unit_length(x: Float[Tensor, "*any size"]) -> Float32[Tensor, "*any size"]:
    wide = x.float()
    return wide * torch.rsqrt(wide.pow(2).sum(-1, keepdim=True) + _EPSILON)


class _Chunk(NamedTuple):
    """A chunk of positions, for all heads."""

    query: Float32[Tensor, "heads chunk key_size"]
    key: Float32[Tensor, "heads chunk key_size"]
    strength: Float32[Tensor, "heads chunk"]
    since: Float32[Tensor, "heads chunk"]  # log of the decay since the chunk began
    between: Float32[Tensor, "heads chunk chunk"]  # decay from a column's position to a row's
    corrections: Float32[
        Tensor, "heads chunk chunk"
    ]  # what each position subtracts of earlier ones, below the diagonal
    recalled: Float32[Tensor, "heads chunk key_size"]  # what each position subtracts of the state before the chunk


class _Reader:
    """Rows of A. What each chunk wrote and carried is computed once."""

    def __init__(self, rule: GatedDeltaRule):
        self._rule = rule
        self._current: tuple[int, _Chunk] | None = None
        self._written: list[Tensor] = []  # for each chunk before the current one
        self._carry: list[Tensor] = []

    def rows(self, receivers: Int[Tensor, " receivers"]) -> Float32[Tensor, "heads receivers seen"]:
        chunks = receivers // CHUNK
        out = self._rule.key.new_zeros(len(self._rule.key), len(receivers), int(receivers[-1]) + 1)
        for number in chunks.unique().tolist():
            chosen = (chunks == number).nonzero()[:, 0]
            self._read(out[:, int(chosen[0]) : int(chosen[-1]) + 1], receivers[chosen], number)
        return out

    def _read(self, out: Tensor, receivers: Tensor, number: int) -> None:
        """Fill the rows of receivers that lie in one chunk."""
        start = number * CHUNK
        if self._current is None or self._current[0] != number:
            self._current = (number, self._chunk(start))
        chunk, own = self._current[1], receivers - start
        query = chunk.query[:, own]
        direct = (query @ chunk.key.mT) * chunk.between[:, own]
        inside = torch.linalg.solve_triangular(chunk.corrections, direct, upper=False, left=False, unitriangular=True)
        seen = min(inside.shape[-1], out.shape[-1] - start)
        out[..., start : start + seen] = (inside * chunk.strength[:, None])[..., :seen]
        reading = query * chunk.since[:, own].exp()[..., None] - inside @ chunk.recalled
        while len(self._written) < number:
            written, carry = self._carried(self._chunk(len(self._written) * CHUNK))
            self._written.append(written)
            self._carry.append(carry)
        for before in range(number - 1, -1, -1):
            out[..., before * CHUNK : (before + 1) * CHUNK] = reading @ self._written[before]
            if before:
                reading = reading @ self._carry[before]

    def _chunk(self, start: int) -> _Chunk:
        rule, own = self._rule, slice(start, start + CHUNK)
        query, key, strength = rule.query[:, own], rule.key[:, own], rule.strength[:, own]
        since = rule.decay[:, own].cumsum(-1)
        gap = since[..., None] - since[..., None, :]
        between = gap.masked_fill_(torch.ones_like(gap[0], dtype=torch.bool).triu(1), float("-inf")).exp_()
        strong = key * strength[..., None]
        return _Chunk(
            query, key, strength, since, between, (strong @ key.mT) * between, strong * since.exp()[..., None]
        )

    @staticmethod
    def _carried(chunk: _Chunk) -> tuple[Float32[Tensor, "heads key_size chunk"], Float32[Tensor, "heads size size"]]:
        """What the state after a chunk holds of its values, and of the state before it."""
        whole = chunk.since[:, -1:]
        late = chunk.key * (whole - chunk.since).exp()[..., None]
        written = torch.linalg.solve_triangular(chunk.corrections.mT, late, upper=True, unitriangular=True).mT
        carry = torch.diag_embed(whole.exp().expand(-1, late.shape[-1])) - written @ chunk.recalled
        return written * chunk.strength[:, None], carry
