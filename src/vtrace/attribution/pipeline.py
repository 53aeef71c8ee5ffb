"""The pipeline, Algorithm 1: one instrumented pass, three padded ones, and a score for every position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..types import ReadAt, Target, Trace
from .multihop import log_scores
from .options import Options
from .shares import Shares, calibrated_tokens, relative_to_inputs, to_shares
from .triangle import Triangle


class TracedModel(Protocol):
    """What the algorithm needs from a model and its frozen trace."""

    trace: Trace

    def pairwise(self, centring: bool = True) -> Triangle:
        """W from one instrumented pass."""

    def padded_likelihoods(self) -> np.ndarray:
        """log p of every response token with nothing, the image, the question, or both padded: 4,n."""


class Explained(NamedTuple):
    """The result of one explanation. W and the likelihoods also serve every other target of the same trace."""

    pairwise: Triangle
    likelihoods: np.ndarray | None
    shares: Shares


def run_stages(model: TracedModel, target: Target, options: Options) -> Explained:
    """Algorithm 1."""
    pairwise = model.pairwise(options.centring)  # stage 1: how much each position writes into each other
    wanted = options.calibrate and model.trace.patches
    likelihoods = model.padded_likelihoods() if wanted else None
    return Explained(pairwise, likelihoods, score(model.trace, target, pairwise, likelihoods, options))


def score(trace: Trace, target: Target, pairwise: Triangle, likelihoods: np.ndarray | None, options: Options) -> Shares:
    """Stages 2 and 3: all paths, then image and text on one scale. Needs no model."""
    return score_all(trace, [target], pairwise, likelihoods, options)[0]


def score_all(
    trace: Trace, targets: Sequence[Target], pairwise: Triangle, likelihoods: np.ndarray | None, options: Options
) -> list[Shares]:
    """The same for several targets, for which W is read only once."""
    logs = log_scores_of(pairwise, targets, options).cpu().numpy()
    return [_shares(trace, target, logs[:, k], likelihoods, options) for k, target in enumerate(targets)]


def _shares(trace: Trace, target: Target, logs: np.ndarray, likelihoods: np.ndarray | None, options: Options) -> Shares:
    raw = relative_to_inputs(logs, trace.inputs)
    measured = None if likelihoods is None else calibrated_tokens(trace, target, likelihoods, options.calibrate_on)
    shares = to_shares(trace, raw.values, measured, options.calibrate)
    return shares._replace(log_scale=shares.log_scale + raw.log_strongest)


def log_scores_of(pairwise: Triangle, targets: Sequence[Target], options: Options) -> Tensor:
    """log u with one column per target: T,k."""
    receivers = receiver_columns(len(pairwise), targets, options.receivers).to(pairwise.device)
    return log_scores(pairwise, receivers, options.gamma, options.multihop, options.hops)


def receiver_columns(length: int, targets: Sequence[Target], read_at: ReadAt = "predictor") -> Tensor:
    """T,k: one where a target is read."""
    receivers = torch.zeros(length, len(targets))
    for column, target in enumerate(targets):
        receivers[target.receivers(read_at), column] = 1
    return receivers
