"""Stage 2: all direct and indirect paths summed in closed form (Eqs. 5 to 7).

R = (I - γŴ)⁻¹ - I is never formed. Scores need its column sums (inflow) and its sums over chosen
receivers (outflow): two triangular substitutions with a few right-hand sides. All terms are
non-negative, so nothing cancels, but path sums can grow like (1 + e)^T; every block of rows therefore
carries its own binary exponent, and results are returned as natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from .pairwise import EPSILON

BLOCK = 128  # rows per exponent: (1 + γ)^128 stays inside float64 for any sensible γ
Edges = Callable[[slice, slice], Tensor]  # rows, columns -> that block of γŴ
_TINY = 1e-280  # below this a float64 sum may have lost terms to underflow


def edge_scale(pairwise: Float[Tensor, "length length"], gamma: float) -> float:
    """γ / (max W + ε): the factor that turns W into γŴ."""
    return gamma / (float(pairwise.max()) + EPSILON)


def log_outflow(
    pairwise: Float[Tensor, "length length"], receivers: Float[Tensor, "length targets"], gamma: float = 1.0
) -> Float64[Tensor, "length targets"]:
    """log Out: for each column of `receivers` (0 or 1), the log of R times that column."""
    return _path_sums(pairwise, receivers, edge_scale(pairwise, gamma), inward=False)


def log_inflow(pairwise: Float[Tensor, "length length"], gamma: float = 1.0) -> Float64[Tensor, " length"]:
    """log In: the log of the column sums of R."""
    ones = torch.ones(len(pairwise), 1, dtype=torch.float64, device=pairwise.device)
    return _path_sums(pairwise, ones, edge_scale(pairwise, gamma), inward=True)[:, 0]


def log_direct(
    pairwise: Float[Tensor, "length length"], receivers: Float[Tensor, "length targets"], gamma: float = 1.0
) -> Float64[Tensor, "length targets"]:
    """log of γŴ times each receiver column: one hop only, the ablation without multi-hop."""
    return (pairwise.double() @ receivers.double() * edge_scale(pairwise, gamma)).log()


def log_sums_up_to(
    pairwise: Float[Tensor, "length length"],
    start: Float[Tensor, "length targets"],
    hops: int,
    gamma: float = 1.0,
    inward: bool = False,
) -> Float64[Tensor, "length targets"]:
    """log of the sum over paths of at most `hops` edges, to (or, `inward`, from) the start columns."""
    edges = (pairwise.T if inward else pairwise).double() * edge_scale(pairwise, gamma)
    sums = torch.zeros_like(start, dtype=torch.float64)
    for _ in range(min(hops, len(pairwise))):  # no path has more edges than there are positions
        sums = edges @ (sums + start.double())
    return sums.log()


def log_scores(
    pairwise: Float[Tensor, "length length"],
    receivers: Float[Tensor, "length targets"],
    gamma: float = 1.0,
    multihop: bool = True,
    hops: int = 0,
) -> Float64[Tensor, "length targets"]:
    """log u for one receiver set per column; -inf from the first receiver of a column on.

    u = (1 + In) · Out counts paths that begin at a token and paths that pass through it. Without
    multi-hop there is nothing to pass through, and u is the direct attribution alone. With `hops`,
    only paths of at most that many edges count on either side.
    """
    if multihop and hops:
        ones = torch.ones(len(pairwise), 1, dtype=torch.float64, device=pairwise.device)
        inflow = log_sums_up_to(pairwise, ones, hops, gamma, inward=True).exp().log1p()
        scores = log_sums_up_to(pairwise, receivers, hops, gamma) + inflow
    elif multihop:
        inflow = torch.logaddexp(
            torch.zeros((), dtype=torch.float64, device=pairwise.device), log_inflow(pairwise, gamma)
        )
        scores = log_outflow(pairwise, receivers, gamma) + inflow[:, None]
    else:
        scores = log_direct(pairwise, receivers, gamma)
    first = receivers.to(torch.uint8).argmax(dim=0)  # argmax returns the first of equal values
    late = torch.arange(len(pairwise), device=pairwise.device)[:, None] >= first
    return scores.masked_fill(late, -math.inf)


def _path_sums(
    pairwise: Float[Tensor, "length length"], start: Float[Tensor, "length targets"], scale: float, inward: bool
) -> Float64[Tensor, "length targets"]:
    """log of R·start, or of Rᵀ·start when `inward`.

    Blocked substitution x = M(x + start) from the last row up, M = scale · W. For `inward` the same
    runs on the transpose read backwards, which is strictly upper triangular again.
    """
    length = len(pairwise)
    start = start.double()
    start = start.flip(0) if inward else start

    def edges(rows: slice, columns: slice) -> Tensor:
        if not inward:
            return pairwise[rows, columns].double() * scale
        source = slice(length - columns.stop, length - columns.start)
        receiver = slice(length - rows.stop, length - rows.start)
        return pairwise[source, receiver].T.flip(0, 1).double() * scale

    sums = torch.zeros_like(start)  # mantissas of x; block b has the exponent exponents[b]
    total = torch.zeros_like(start)  # x + start, all rows on the one exponent `common`
    exponents = torch.zeros((length + BLOCK - 1) // BLOCK, start.shape[1], dtype=torch.float64, device=start.device)
    common = torch.zeros(start.shape[1], dtype=torch.float64, device=start.device)
    for block in reversed(range(len(exponents))):
        rows = slice(block * BLOCK, min((block + 1) * BLOCK, length))
        later = slice(rows.stop, length)
        inner = edges(rows, rows)
        from_later = edges(rows, later) @ total[later] if rows.stop < length else torch.zeros_like(start[rows])
        own = inner @ (start[rows] * torch.exp2(-common))
        identity = torch.eye(len(inner), dtype=torch.float64, device=start.device)
        x = torch.linalg.solve_triangular(identity - inner, from_later + own, upper=True, unitriangular=True)
        sums[rows], exponents[block] = x, common
        total[rows] = x + start[rows] * torch.exp2(-common)
        top = total[rows].amax(dim=0)
        shift = torch.where(top > 2.0**200, top.clamp_min(1e-300).log2().floor(), torch.zeros_like(top))
        if shift.any():  # renormalise what later blocks will read
            total[rows.start :] *= torch.exp2(-shift)
            common = common + shift
    exponents = exponents.repeat_interleave(BLOCK, dim=0)[:length]
    result = sums.log() + exponents * math.log(2)
    lost = _underflowed(sums, start, edges)
    if lost.any():
        result[:, lost] = _log_domain(start[:, lost], edges)
    return result.flip(0) if inward else result


def _underflowed(
    sums: Float64[Tensor, "length targets"], start: Float64[Tensor, "length targets"], edges: Edges
) -> Bool[Tensor, " targets"]:
    """Columns in which a positive path sum came out as zero, infinite, or too small to trust."""
    doubtful = (sums < _TINY) & (sums > 0)
    lost = doubtful.any(dim=0) | ~torch.isfinite(sums).all(dim=0)
    length = len(sums)
    last = length - 1 - start.flip(0).to(torch.uint8).argmax(dim=0)  # no path leaves the last receiver
    inside = torch.arange(length, device=sums.device)[:, None] < last
    for row in ((sums == 0) & inside & ~lost).any(dim=1).nonzero()[:, 0].tolist():
        ahead = edges(slice(row, row + 1), slice(row, length))[0] > 0
        lost |= (sums[row] == 0) & ((sums[row:] > 0) | (start[row:] > 0))[ahead].any(dim=0)
    return lost


def _log_domain(start: Float64[Tensor, "length targets"], edges: Edges) -> Float64[Tensor, "length targets"]:
    """The same substitution row by row on logarithms: slow, but safe for any dynamic range."""
    length = len(start)
    log_start = start.log()
    reach = log_start.clone()  # log(x + start)
    result = torch.full_like(start, -math.inf)
    for row in reversed(range(length - 1)):
        ahead = edges(slice(row, row + 1), slice(row + 1, length))[0].log()
        result[row] = torch.logsumexp(ahead[:, None] + reach[row + 1 :], dim=0)
        reach[row] = torch.logaddexp(log_start[row], result[row])
    return result
