"""Information Flow Routes (Ferrando & Voita, 2024) as token scores.

A source's write is important if it brings the receiver closer to its new residual in the L1 norm. The
distance does not factor over features, so writes are built for a few sources and one head at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..attribution.attention import AttentionBlock, ReceiverSet, attention_rows
from ..attribution.pairwise import EPSILON
from ..lvlm.layer import Layer
from ..types import ReadAt, Target
from .outcome import Outcome, check_finite
from .session import TraceSession

_CHUNK_BYTES = 4 << 20  # of receivers by sources by features
FEW = 16  # receivers at a time, if all are needed: keeps chunks of sources long


class ScoresAndResidual(NamedTuple):
    """Scores summed over layers, and the share that stays in the residual in each layer."""

    scores: Tensor
    residual_share: list[float]


class SharesAndResidual(NamedTuple):
    """Shares of the sources in each receiver of one layer, and the residual's own. Together they are one."""

    shares: Tensor  # r,s
    residual: Tensor  # r


def ifr(
    session: TraceSession,
    target: Target,
    *,
    aggregate: Literal["rows", "span"] = "rows",
    threshold: float = 0.0,
    receivers: ReadAt = "predictor",
) -> Outcome:
    """Shares of the receivers' rows, summed over layers; `aggregate` "span" treats them as one (FlashTrace)."""
    where = session.receivers(target, receivers)
    if aggregate == "span":
        span = span_scores(session, where, torch.ones(len(where), device=session.device), threshold)
        return Outcome(span.scores, {"residual_share": span.residual_share})
    rows = row_scores(session, where, threshold)
    return Outcome(rows.scores.sum(0), {"residual_share": rows.residual_share})


def row_scores(session: TraceSession, receivers: Tensor, threshold: float = 0.0) -> ScoresAndResidual:
    """One row per receiver, summed over layers: r,T; and the mean share that stays in the residual, per layer."""
    total = torch.zeros(len(receivers), len(session.trace), dtype=torch.float64, device=session.device)
    kept = []
    for layer in session.layers():
        done, left = 0, 0.0
        for rows, weights in written_rows(layer, receivers):
            shares, residual = shares_of(layer, weights, layer.residual[rows], layer.update[rows], threshold)
            total[done : done + len(shares), : shares.shape[1]] += check_finite(shares, layer.index)
            done, left = done + len(shares), left + float(residual.sum())
        kept.append(left / len(receivers))
    return ScoresAndResidual(total, kept)


def span_scores(session: TraceSession, receivers: Tensor, weights: Tensor, threshold: float = 0.0) -> ScoresAndResidual:
    """Weighted receivers as one: their residuals, updates and attention are averaged before distances are taken."""
    mix = weights.float() / weights.sum()
    total = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
    kept = []
    for layer in session.layers():
        done, attention = 0, torch.zeros(len(layer.query), 1, len(session.trace), device=session.device)
        for _, seen in written_rows(layer, receivers):
            count = seen.shape[1]
            attention[:, 0, : seen.shape[-1]] += torch.einsum("r,hrs->hs", mix[done : done + count], seen)
            done += count
        residual, update = ((mix @ x[receivers].float())[None] for x in (layer.residual, layer.update))
        shares, left = shares_of(layer, attention, residual, update, threshold)
        total += check_finite(shares[0], layer.index)
        kept.append(float(left))
    return ScoresAndResidual(total, kept)


def shares_of(
    layer: Layer, weights: Tensor, residual: Tensor, update: Tensor, threshold: float = 0.0
) -> SharesAndResidual:
    """Shares of one layer, heads summed."""
    residual, whole = residual.float(), residual.float() + update.float()
    near = torch.zeros(weights.shape[1:], device=weights.device)
    size = whole.abs()
    chunk = max(1, _CHUNK_BYTES // (4 * whole.numel()))
    for head in range(len(weights)):
        for start in range(0, weights.shape[-1], chunk):
            sources = slice(start, min(start + chunk, weights.shape[-1]))
            writes = writes_of(layer, head, sources)  # c,d
            left = torch.addcmul(whole[:, None], weights[head, :, sources, None], writes, value=-1)
            # feature by feature: the difference of two large norms would be lost in rounding
            proximity = left.abs_().sub_(size[:, None]).sum(-1).neg_().relu_()
            near[:, sources] += torch.where(proximity < threshold, 0.0, proximity) if threshold else proximity
    near = layer.whole(near)
    stay = (size - update.float().abs()).sum(-1).relu()
    stay = torch.where(stay < threshold, 0.0, stay) if threshold else stay
    total = stay + near.sum(-1) + EPSILON
    return SharesAndResidual((near / total[:, None]).double(), (stay / total).double())


def written_rows(layer: Layer, rows: ReceiverSet | None = None) -> Iterator[AttentionBlock]:
    """Receivers and their weights of every source's writes: attention, times a norm's factor if there is one."""
    for block, weights in attention_rows(layer, rows):
        yield AttentionBlock(block, weights if layer.gain is None else weights.mul_(layer.gain[block, None]))


def writes_of(layer: Layer, head: int, sources: slice) -> Tensor:
    """What a head would write from each source at full attention: c,d."""
    heads, size = len(layer.query), layer.query.shape[-1]
    value = layer.value[head * len(layer.value) // heads, sources].float()
    return value @ layer.projection[:, head * size : (head + 1) * size].float().T


def ifr_matrix(session: TraceSession) -> Tensor:
    """All rows as a pairwise matrix, source by receiver, mean over layers. Slow: every pair costs H·d."""
    length = len(session.trace)
    matrix = torch.zeros(length, length, device=session.device)
    for number, layer in enumerate(session.layers(), start=1):
        for rows, weights in written_rows(layer):
            assert isinstance(rows, slice)
            for part in torch.arange(weights.shape[1]).split(FEW):
                where = torch.arange(rows.start, rows.stop)[part]
                seen = int(where[-1]) + 1
                found = shares_of(layer, weights[:, part, :seen], layer.residual[where], layer.update[where])
                matrix[where, :seen] += check_finite(found.shares, layer.index)
        session.progress(number, len(session.layers()))
    return matrix.tril_(-1).div_(len(session.layers())).T
