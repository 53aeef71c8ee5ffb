"""Stage 2: all direct and indirect paths summed in closed form (Eqs. 5 to 7).

R = (I - γŴ)⁻¹ - I is never formed. Scores need its column sums (inflow) and its sums over chosen
receivers (outflow): two triangular substitutions with a few right-hand sides, each of which reads every
block of W once. All terms are non-negative, so nothing cancels, but path sums can grow like (1 + e)^T;
every block of rows therefore carries its own binary exponent, and results are returned as natural logarithms.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from .pairwise import EPSILON
from .triangle import Triangle

_TINY = 1e-280  # below this a float64 sum may have lost terms to underflow


def edge_scale(pairwise: Triangle, gamma: float) -> float:
    """γ / (max W + ε): the factor that turns W into γŴ."""
    return gamma / (pairwise.largest + EPSILON)


def log_outflow(
    pairwise: Triangle, receivers: Float[Tensor, "length targets"], gamma: float = 1.0
) -> Float64[Tensor, "length targets"]:
    """log Out: for each column of `receivers` (0 or 1), the log of R times that column."""
    return _path_sums(pairwise, receivers.double(), edge_scale(pairwise, gamma), inward=False)


def log_inflow(pairwise: Triangle, gamma: float = 1.0) -> Float64[Tensor, " length"]:
    """log In: the log of the column sums of R."""
    return _path_sums(pairwise, _everywhere(pairwise), edge_scale(pairwise, gamma), inward=True)[:, 0]


def log_direct(
    pairwise: Triangle, receivers: Float[Tensor, "length targets"], gamma: float = 1.0
) -> Float64[Tensor, "length targets"]:
    """log of γŴ times each receiver column: one hop only, the ablation without multi-hop."""
    return log_sums_up_to(pairwise, receivers, 1, gamma)


def log_sums_up_to(
    pairwise: Triangle,
    start: Float[Tensor, "length targets"],
    hops: int,
    gamma: float = 1.0,
    inward: bool = False,
) -> Float64[Tensor, "length targets"]:
    """log of the sum over paths of at most `hops` edges, to (or, `inward`, from) the start columns."""
    scale, start = edge_scale(pairwise, gamma), start.double()
    sums = torch.zeros_like(start)
    for _ in range(min(hops, len(pairwise))):  # no path has more edges than there are positions
        sums = _one_hop(pairwise, sums + start, inward) * scale
    return sums.log()


def _one_hop(
    pairwise: Triangle, given: Float64[Tensor, "length targets"], inward: bool
) -> Float64[Tensor, "length targets"]:
    """W · given, or Wᵀ · given when `inward`."""
    sums = torch.zeros_like(given)
    for rows, stored in pairwise.blocks():
        edges, seen = stored.double(), slice(0, rows.stop)
        if inward:
            sums[rows] = edges @ given[seen]
        else:
            sums[seen] += edges.T @ given[rows]
    return sums


def log_scores(
    pairwise: Triangle,
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
        inflow = log_sums_up_to(pairwise, _everywhere(pairwise), hops, gamma, inward=True)
        scores = log_sums_up_to(pairwise, receivers, hops, gamma) + inflow.exp().log1p()
    elif multihop:
        inflow = log_inflow(pairwise, gamma)[:, None]
        scores = log_outflow(pairwise, receivers, gamma) + torch.logaddexp(torch.zeros_like(inflow), inflow)
    else:
        scores = log_direct(pairwise, receivers, gamma)
    first = receivers.to(torch.uint8).argmax(dim=0)  # argmax returns the first of equal values
    late = torch.arange(len(pairwise), device=scores.device)[:, None] >= first
    return scores.masked_fill(late, -math.inf)


def _everywhere(pairwise: Triangle) -> Float64[Tensor, "length 1"]:
    return torch.ones(len(pairwise), 1, dtype=torch.float64, device=pairwise.device)


def _path_sums(
    pairwise: Triangle, start: Float64[Tensor, "length targets"], scale: float, inward: bool
) -> Float64[Tensor, "length targets"]:
    """log of R·start, or of Rᵀ·start when `inward`.

    Blocked substitution x = M(x + start), M = scale · W, from the last receivers up; for `inward` with Mᵀ, from the
    first down. `flow` is on one exponent, `common`. Inward, it has x + start of all blocks that are complete; outward,
    what those have passed on to their sources so far.
    """
    if not scale:
        return torch.full_like(start, -math.inf)
    sums = torch.zeros_like(start)  # mantissas of x; every block has its own exponent
    exponents = torch.zeros_like(start)
    flow = torch.zeros_like(start)
    common = torch.zeros(start.shape[1], dtype=torch.float64, device=start.device)
    positive = torch.zeros_like(start, dtype=torch.bool)  # x + start, before anything is renormalised
    vanished = torch.zeros_like(positive)  # zeros to which an edge leads from something positive
    for rows, stored in pairwise.blocks(backwards=not inward):
        edges, earlier = stored.double(), slice(0, rows.start)
        before, inner = edges[:, earlier], edges[:, rows] * scale
        inner = inner if inward else inner.T
        arrived = before @ flow[earlier] * scale if inward else flow[rows]
        own = start[rows] * torch.exp2(-common)
        identity = torch.eye(len(inner), dtype=torch.float64, device=start.device)
        x = torch.linalg.solve_triangular(identity - inner, arrived + inner @ own, upper=not inward, unitriangular=True)
        sums[rows], exponents[rows], positive[rows] = x, common, (x > 0) | (start[rows] > 0)
        total = x + own
        top = total.amax(dim=0)
        shift = torch.where(top > 2.0**200, top.clamp_min(1e-300).log2().floor(), torch.zeros_like(top))
        if shift.any():  # renormalise what later blocks will read
            total, flow, common = total * torch.exp2(-shift), flow * torch.exp2(-shift), common + shift
        vanished[rows] |= _led_to(inner, positive[rows], x == 0)
        if inward:
            flow[rows] = total
            vanished[rows] |= _led_to(before, positive[earlier], x == 0)
        else:
            flow[earlier] += before.T @ total * scale
            vanished[earlier] |= _led_to(before.T, positive[rows], (flow[earlier] == 0) & positive[rows].any(dim=0))
    result = sums.log() + exponents * math.log(2)
    doubtful = ((sums < _TINY) & (sums > 0)) | ~torch.isfinite(sums) | (vanished & (sums == 0))
    if (lost := doubtful.any(dim=0)).any():
        result[:, lost] = _log_domain(pairwise, start[:, lost], scale, inward)
    return result


def _led_to(
    edges: Float64[Tensor, "rows others"], positive: Bool[Tensor, "others targets"], zero: Bool[Tensor, "rows targets"]
) -> Bool[Tensor, "rows targets"]:
    """The zeros among some sums to which an edge leads from a positive number: underflow, or not yet complete."""
    rows = zero.any(dim=1)
    found = torch.zeros_like(zero)
    if rows.any():
        found[rows] = ((edges[rows] > 0).double() @ positive.double() > 0) & zero[rows]
    return found


def _log_domain(
    pairwise: Triangle, start: Float64[Tensor, "length targets"], scale: float, inward: bool
) -> Float64[Tensor, "length targets"]:
    """The same substitution row by row on logarithms: slow, but safe for any dynamic range."""
    reach = start.log()  # log(x + start)
    result = torch.full_like(start, -math.inf)
    sums = torch.zeros_like(start)  # outward: of what has been passed on, each divided by exp of its largest term
    largest = torch.full_like(start, -math.inf)
    for rows, stored in pairwise.blocks(backwards=not inward):
        logs = stored.double().log() + math.log(scale)
        for row in range(rows.start, rows.stop) if inward else reversed(range(rows.start, rows.stop)):
            edges = logs[row - rows.start, :row, None]
            if inward and row:
                result[row] = torch.logsumexp(edges + reach[:row], dim=0)
            elif not inward:
                result[row] = largest[row] + sums[row].log()
            reach[row] = torch.logaddexp(reach[row], result[row])
            if not inward:
                terms = edges + reach[row]
                top = torch.maximum(largest[:row], terms)
                base = top.clamp_min(-1e300)  # the difference of two infinities is not a number
                sums[:row] = sums[:row] * torch.exp(largest[:row] - base) + torch.exp(terms - base)
                largest[:row] = top
    return result
