"""All paths over any pairwise matrix: the paper's Katz sum, and CAGE's row-normalised one."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..attribution import log_scores_of, relative_to_inputs
from ..types import Options, Target
from .choices import Receivers
from .flowtracer import attention_capacity
from .ifr import ifr_matrix
from .work import Outcome, Work

PAIRWISE = {
    "vtrace": lambda work: work.pairwise(),
    "ifr": ifr_matrix,
    "attention": lambda work: attention_capacity(work, range(len(work.layers))).float(),
}


def pairwise_matrix(work: Work, base: str) -> Tensor:
    return PAIRWISE[base](work)


def ifr_multihop(work: Work, target: Target, *, gamma: float = 0.5, receivers: Receivers = "predictor") -> Outcome:
    """IFR's matrix under the paper's multi-hop sum."""
    return _katz(work, ifr_matrix(work), target, gamma, receivers)


def attention_multihop(
    work: Work, target: Target, *, gamma: float = 0.5, receivers: Receivers = "predictor"
) -> Outcome:
    """Mean attention under the paper's multi-hop sum."""
    return _katz(work, pairwise_matrix(work, "attention"), target, gamma, receivers)


def _katz(work: Work, pairwise: Tensor, target: Target, gamma: float, receivers: str) -> Outcome:
    logs = log_scores_of(pairwise, [target.positions], Options(gamma=gamma, receivers=receivers))[:, 0]
    return Outcome(torch.from_numpy(relative_to_inputs(logs.cpu().numpy(), work.inputs)[0]))


def cage(
    work: Work,
    target: Target,
    *,
    base: Literal["vtrace", "ifr", "attention"] = "vtrace",
    receivers: Receivers = "predictor",
) -> Outcome:
    """CAGE (Walker & Ewetz, 2025): every receiver's row sums to one; credit of response tokens is passed on whole."""
    rows = normalised(pairwise_matrix(work, base))
    return Outcome(passed_on(rows, work.receivers(target, receivers), work.trace.prompt_length))


def normalised(pairwise: Tensor) -> Tensor:
    """Receiver by source, rows that sum to one (or to nothing)."""
    rows = pairwise.T.double()
    total = rows.sum(1, keepdim=True)
    return torch.where(total > 0, rows / total.clamp_min(1e-300), 0.0)


def passed_on(rows: Tensor, receivers: Tensor, prompt: int) -> Tensor:
    """Credit of the receivers, with what lands on response tokens handed down to their own sources."""
    credit = rows[receivers].sum(0)
    for position in range(len(rows) - 1, prompt - 1, -1):
        credit = credit + credit[position] * rows[position]
        credit[position] = 0
    return credit
