"""What methods cost: time and memory by sequence length, and time against faithfulness."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..attribution.options import Options
from ..attribution.pipeline import log_scores_of
from ..attribution.result import Attribution
from ..faithfulness.likelihoods import CurveKind, ResponseLikelihoods
from ..lvlm.model import Lvlm
from ..methods.registry import run_method
from ..methods.session import TraceSession
from ..system.peak_memory import PeakMemory
from ..tracing.generate import retrace
from ..tracing.reply import Reply
from ..tracing.targets import find_target
from ..types import Example, Target, Trace
from .catalogue import STUDY_SUBJECTS
from .point_plots import PlotPanel
from .point_study import Point, PointStudy

LENGTHS = (256, 512, 1024, 2048)  # tokens
TIMED_METHODS = ("vtrace", "vtrace-ordered", "ifr", "flashtrace", "flowtracer", "rollout", "attnlrp", "chefer")


class MethodCost(NamedTuple):
    """What one method cost, and what it found."""

    seconds: float
    memory: int | None  # bytes at the peak; None if the system does not report it
    attribution: Attribution


def efficiency_points(session: TraceSession, blur: float, seed: int) -> list[Point]:
    """Time and memory by sequence length (the response repeated until it is long enough), time against RISE, and time
    for one target against every generated token as its own."""
    return [*_target_points(session), *_faithfulness_points(session, blur), *_length_points(session)]


def _target_points(session: TraceSession) -> Iterator[Point]:
    lvlm, trace = session.lvlm, session.trace
    every = [Target("token", (p,)) for p in range(trace.prompt_length, len(trace))]
    for place, targets in enumerate(([find_target(trace, "response")], every)):
        yield Point("targets", "vtrace", place, _seconds(partial(_explain, lvlm, trace, targets)))


def _faithfulness_points(session: TraceSession, blur: float) -> Iterator[Point]:
    target, likelihoods = find_target(session.trace, "response"), ResponseLikelihoods(session, blur)
    for name in TIMED_METHODS:
        cost = _cost(session.lvlm, session.trace, name, target)
        curve = likelihoods.curves([cost.attribution.scores], ("image",))[0][CurveKind("image", "insertion")]
        if not curve.degenerate:
            yield Point("faithfulness", name, cost.seconds, curve.rise)


def _length_points(session: TraceSession) -> Iterator[Point]:
    for length in LENGTHS:
        long = _lengthened(session.lvlm, session.trace, length)
        if long is None:
            continue
        last = Target("end", tuple(range(len(long) - 5, len(long))))
        for name in TIMED_METHODS:
            cost = _cost(session.lvlm, long, name, last)
            yield Point("seconds", name, length, cost.seconds)
            if cost.memory is not None:
                yield Point("memory", name, length, cost.memory / 2**20)


def _cost(lvlm: Lvlm, trace: Trace, name: str, target: Target) -> MethodCost:
    """Cost of one method after a warm-up, with nothing shared.

    Memory and time are measured in separate runs, because releasing memory before a measurement takes time.
    """
    memory = PeakMemory(lvlm.device)
    with memory.measure():
        found = run_method(name, TraceSession.open(lvlm, trace), target)
    seconds = _seconds(lambda: run_method(name, TraceSession.open(lvlm, trace), target))
    return MethodCost(seconds, memory.peak, found)


def _seconds(run: Callable[[], object]) -> float:
    """The median of three."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return sorted(spent)[1]


def _explain(lvlm: Lvlm, trace: Trace, targets: Sequence[Target]) -> Tensor:
    """VTrace for all of these targets, including the forward passes."""
    session = TraceSession.open(lvlm, trace)
    session.padded_likelihoods()  # calibration is part of the cost
    return log_scores_of(session.pairwise(), targets, Options())


def _lengthened(lvlm: Lvlm, trace: Trace, length: int) -> Trace | None:
    """The trace with its response repeated to a length, if the context allows."""
    reply = trace.ids[trace.prompt_length :]
    wanted = length - trace.prompt_length
    if wanted < len(reply) or length > lvlm.context:
        return None
    repeated = (list(reply[:-1]) * (wanted // max(1, len(reply) - 1) + 1))[:wanted]
    return retrace(lvlm, Example(trace.images, trace.question), Reply(repeated, "supplied"), trace.system)


EFFICIENCY_STUDY = PointStudy(
    "efficiency",
    STUDY_SUBJECTS["efficiency"],
    {
        "seconds": PlotPanel("tokens", "seconds", log_x=True, log_y=True),
        "memory": PlotPanel("tokens", "peak memory above the model's, MB", log_x=True, from_zero=True),
        "faithfulness": PlotPanel("seconds", "RISE insertion, image", scatter=True),
        "targets": PlotPanel("", "seconds", ticks={0.0: "one span", 1.0: "every token"}, from_zero=True),
    },
    efficiency_points,
    limit=2,
)
