"""The paper's method, on the common interface of all methods."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..attribution.options import CalibrateOn, Options
from ..attribution.pipeline import run_stages
from ..attribution.result import Attribution
from ..lvlm.model import Lvlm
from ..tracing.targets import TargetSpec, find_target
from ..types import Progress, ReadAt, Target, Trace, silent
from .session import TraceSession


def attribute(
    lvlm: Lvlm,
    trace: Trace,
    target: TargetSpec = "response",
    *,
    progress: Progress = silent,
    memory: str | int | None = None,
    **options: Any,
) -> Attribution:
    """Explain a frozen trace: which image patches and words does the target rely on?

    Args:
        lvlm: the model, from `load`.
        trace: its frozen response, from `trace`.
        target: what to explain: "response", "answer", "reasoning", "sentence 2", a quoted phrase, a regular
            expression between slashes, or response tokens by number.
        progress: is called for every layer of the instrumented pass.
        memory: what the process (on a GPU: the model's GPU) may use in all, such as "4GB". A matrix that does not fit
            is kept in a file; scores are the same.
        options: those of `Options`: gamma, centring, multihop, hops, calibrate, calibrate_on, receivers.
    """
    chosen = Options.of(options)
    found = find_target(trace, target)  # before any work, so that an invalid target fails at once
    session = TraceSession.open(lvlm, trace, keep_layers=False, memory=memory)
    session.progress = progress
    return _explain(session, found, chosen)


def vtrace(
    session: TraceSession,
    target: Target,
    *,
    gamma: float = 1.0,
    centring: bool = True,
    multihop: bool = True,
    hops: int = 0,
    calibrate: bool = True,
    calibrate_on: CalibrateOn = "target",
    receivers: ReadAt = "predictor",
) -> Attribution:
    """The paper's three stages: centred writes, all paths, image and text on one scale."""
    options = Options(gamma, centring, multihop, hops, calibrate, calibrate_on, receivers)
    return _explain(session, target, options)


def _explain(session: TraceSession, target: Target, options: Options) -> Attribution:
    found = run_stages(session, target, options)
    return Attribution(
        trace=session.trace,
        target=target,
        method="vtrace",
        options=asdict(options),
        likelihoods=found.likelihoods,
        pairwise=found.pairwise,
        **found.shares._asdict(),
    )
