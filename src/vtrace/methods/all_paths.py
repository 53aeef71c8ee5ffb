"""All paths over any pairwise matrix: the paper's Katz sum, and CAGE's row-normalised one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ..attribution.options import Options
from ..attribution.pipeline import log_scores_of
from ..attribution.shares import relative_to_inputs
from ..attribution.triangle import Triangle
from ..types import ReadAt, Target
from .flowtracer import attention_capacity
from .ifr import ifr_matrix
from .outcome import Outcome
from .session import TraceSession

Base = Literal["vtrace", "ifr", "attention"]  # source of the pairwise matrix


def attention_matrix(session: TraceSession) -> Tensor:
    """Mean attention over all layers and heads, source by receiver."""
    return attention_capacity(session, range(len(session.layers()))).float()


MATRICES: dict[Base, Callable[[TraceSession], Tensor]] = {
    "vtrace": lambda session: session.pairwise().dense(),
    "ifr": ifr_matrix,
    "attention": attention_matrix,
}


def ifr_multihop(
    session: TraceSession, target: Target, *, gamma: float = 0.5, receivers: ReadAt = "predictor"
) -> Outcome:
    """IFR's matrix under the paper's multi-hop sum."""
    return _katz(session, ifr_matrix(session), target, gamma, receivers)


def attention_multihop(
    session: TraceSession, target: Target, *, gamma: float = 0.5, receivers: ReadAt = "predictor"
) -> Outcome:
    """Mean attention under the paper's multi-hop sum."""
    return _katz(session, attention_matrix(session), target, gamma, receivers)


def _katz(session: TraceSession, pairwise: Tensor, target: Target, gamma: float, receivers: ReadAt) -> Outcome:
    logs = log_scores_of(Triangle.of(pairwise), [target], Options(gamma=gamma, receivers=receivers))[:, 0]
    return Outcome(torch.from_numpy(relative_to_inputs(logs.cpu().numpy(), session.inputs).values))


def cage(
    session: TraceSession,
    target: Target,
    *,
    base: Base = "vtrace",
    receivers: ReadAt = "predictor",
) -> Outcome:
    """CAGE (Walker & Ewetz, 2025): every receiver's row sums to one; credit of response tokens is passed on in full."""
    rows = normalised(MATRICES[base](session))
    return Outcome(passed_on(rows, session.receivers(target, receivers), session.trace.prompt_length))


def normalised(pairwise: Tensor) -> Tensor:
    """Receiver by source; rows sum to one (or to zero)."""
    rows = pairwise.T.double()
    total = rows.sum(1, keepdim=True)
    return torch.where(total > 0, rows / total.clamp_min(1e-300), 0.0)


def passed_on(rows: Tensor, receivers: Tensor, prompt: int) -> Tensor:
    """Credit of the receivers; what reaches response tokens is passed on to their own sources."""
    credit = rows[receivers].sum(0)
    for position in range(len(rows) - 1, prompt - 1, -1):
        credit = credit + credit[position] * rows[position]
        credit[position] = 0
    return credit
