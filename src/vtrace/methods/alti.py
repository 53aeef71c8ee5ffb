"""ALTI (Ferrando et al., 2022) and ALTI-Logit (2023): token mixing by L1 proximity, multiplied over layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..attribution.pairwise import EdgeBlock
from ..lvlm.layer import Layer
from ..lvlm.relevance import linear_norm
from ..types import ReadAt, Target
from .ifr import writes_of, written_rows
from .option_types import Sign
from .outcome import Outcome, check_finite, one_hot, signed_as
from .session import TraceSession

_CHUNK_BYTES = 8 << 20  # of receivers by sources by features


def alti(session: TraceSession, target: Target, *, receivers: ReadAt = "predictor") -> Outcome:
    """Receivers' rows of the product of all layers' contributions, averaged."""
    row = one_hot(len(session.trace), session.receivers(target, receivers), session.device)
    for number, layer in enumerate(reversed(session.layers()), start=1):
        row = through_contributions(row, layer)
        session.progress(number, len(session.layers()))
    return Outcome(row)


def alti_logit(session: TraceSession, target: Target, *, sign: Sign = "positive") -> Outcome:
    """What each layer's attention adds to the target's logits, passed down to the inputs by ALTI.

    The MLPs' part of the logits is assigned to no token; the details say how much that is.
    """
    where = session.receivers(target)
    directions, final = _readout(session, target)
    row = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
    for number, layer in enumerate(reversed(session.layers()), start=1):
        if row.any():
            row = through_contributions(row, layer)
        row += _written_logits(layer, where, directions)
        session.progress(number, len(session.layers()))
    row.index_add_(0, where, (session.layers()[0].residual[where].float() * directions).sum(-1).double())
    details = {"target_logits": final, "assigned": float(row.sum())}
    return signed_as(sign, row, details)


def through_contributions(row: Tensor, layer: Layer) -> Tensor:
    """`row` times the contribution matrix of a layer: T."""
    out = torch.zeros_like(row)
    for rows, shares in contributions(layer, int(row.nonzero()[-1]) + 1):
        out[: shares.shape[1]] += row[rows] @ check_finite(shares, layer.index)
    return out


def contributions(layer: Layer, reach: int) -> Iterator[EdgeBlock]:
    """Blocks of receivers and their normalised contributions: r,s. A source's part is the sum of its heads' writes,
    and the receiver's own part includes its residual."""
    heads, width = len(layer.query), layer.residual.shape[1]
    whole = (layer.residual + layer.update).float()
    for rows, weights in written_rows(layer, slice(0, reach)):
        assert isinstance(rows, slice)
        count, seen = weights.shape[1:]
        target, size = whole[rows], whole[rows].abs()
        near = torch.zeros(count, seen, device=weights.device)
        chunk = max(1, _CHUNK_BYTES // (4 * count * width))
        for start in range(0, seen, chunk):
            stop = min(start + chunk, seen)
            writes = torch.stack([writes_of(layer, head, slice(start, stop)) for head in range(heads)], dim=1)  # c,H,d
            parts = layer.whole(torch.bmm(weights[..., start:stop].permute(2, 1, 0), writes))  # c,r,d
            for own in range(max(start, rows.start), min(stop, rows.stop)):
                parts[own - start, own - rows.start] += layer.residual[own]
            # feature by feature: the difference of two large norms would be lost in rounding
            near[:, start:stop] = parts.sub_(target).abs_().sub_(size).sum(-1).neg_().relu_().T
        yield EdgeBlock(rows, (near / near.sum(1, keepdim=True).clamp_min(1e-12)).double())


class _Readout(NamedTuple):
    """How the target's logits are read from the final residual."""

    directions: Tensor  # n,d
    logits: float  # of the target, summed


def _readout(session: TraceSession, target: Target) -> _Readout:
    """For each target token, the direction of the final residual that its logit reads, with a linearised norm: n,d."""
    seam = session.seam
    decoder, head = seam.decoder, seam.head
    found: list[Tensor] = []
    hook = decoder.norm.register_forward_pre_hook(lambda m, args: found.append(args[0][0]))
    try:
        with torch.no_grad():
            decoder(**session.arguments)
    finally:
        hook.remove()
    where = session.receivers(target)
    with torch.enable_grad():
        last = found[0][where.to(found[0].device)].detach().clone().requires_grad_()
        logits = head(linear_norm(decoder.norm, last)).float()
        chosen = logits.gather(1, session.ids.to(logits.device)[list(target.positions)][:, None])
        (directions,) = torch.autograd.grad(chosen.sum(), last)
    return _Readout(directions.float().to(session.device), float(chosen.detach().sum()))


def _written_logits(layer: Layer, where: Tensor, directions: Tensor) -> Tensor:
    """What the attention of a layer writes into the logits from each source, summed over receivers: T."""
    heads, length, size = layer.query.shape
    reading = (directions @ layer.projection.float()).view(len(where), heads, size)  # n,H,d_h
    groups = torch.arange(heads, device=where.device) * len(layer.value) // heads
    out, done = torch.zeros(length, dtype=torch.float64, device=where.device), 0
    for _, weights in written_rows(layer, where):
        count, seen = weights.shape[1:]
        for head in range(heads):
            aligned = reading[done : done + count, head] @ layer.value[groups[head], :seen].float().T
            out[:seen] += (weights[head] * aligned).sum(0)
        done += count
    return layer.whole(out)
