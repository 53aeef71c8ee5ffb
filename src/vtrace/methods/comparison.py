"""Several methods on one frozen trace: what each finds, what it costs, and how well they agree."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..attribution.result import Attribution
from ..errors import InputError, VTraceError, running
from ..lvlm.model import Lvlm
from ..system.embedded_world import EMBEDDED_WORLD
from ..system.peak_memory import PeakMemory
from ..system.presentation import Presentable
from ..tracing.targets import TargetSpec, find_target
from ..types import Progress, Target, Trace, silent
from .catalogue import names_of
from .registry import find_method, keeps_layers, needs_layers, run_method
from .session import TraceSession

QUICK = tuple(names_of("instant", "quick"))


@dataclass(frozen=True)
class Cost:
    """Cost of one method: alone, and in addition to what other methods had already computed."""

    seconds: float  # as if it had run alone
    own_seconds: float
    shared: dict[str, float]  # seconds of the shared stages it used
    memory: int | None  # peak in bytes above the loaded model, including shared stages
    passes: int  # sequences decoded, as if it had run alone


@dataclass(frozen=True, repr=False)
class Comparison(Presentable):
    """Attributions of the same target by several methods, and the failures with their reasons."""

    trace: Trace
    target: Target
    results: dict[str, Attribution]
    costs: dict[str, Cost]
    failures: dict[str, str]
    compared: Literal["method", "model"] = "method"  # what the results are named after

    def __getitem__(self, name: str) -> Attribution:
        if name not in self.results:
            raise KeyError(self.failures.get(name, f"{name} was not compared; use one of: {', '.join(self.results)}"))
        return self.results[name]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before relying on any of the methods."""
        return EMBEDDED_WORLD.get().notes(self.trace)

    @property
    def agreement(self) -> np.ndarray:
        """Rank correlation between methods over image and question positions: m,m; NaN for constant scores."""
        ranks = np.stack([rank(result.scores[self.trace.inputs]) for result in self.results.values()])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.atleast_2d(np.corrcoef(ranks))

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self.results)} on {self.target.name!r}>"


def compare(
    lvlm: Lvlm,
    trace: Trace,
    methods: Sequence[str] = QUICK,
    target: TargetSpec = "response",
    *,
    calibrated: bool = False,
    options: dict[str, dict[str, Any]] | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run methods on one trace and share common computations. A method that cannot run is reported, not fatal.

    `options` are per method; `calibrated` applies stage 3 to methods that have no such stage.
    `progress` receives the name of the method as its label.
    """
    options = options or {}
    if not methods:
        raise InputError("name at least one method")
    for name in [*methods, *options]:
        find_method(name).check(name, options.get(name, {}))
    if stray := set(options) - set(methods):
        raise InputError(f"options were given for {sorted(stray)[0]}, which is not among the methods")
    found = find_target(trace, target)
    memory = PeakMemory(lvlm.device)
    session = TraceSession.open(lvlm, trace, keep_layers=keeps_layers(methods))
    if needs_layers(methods):
        reported = nullcontext() if session.seam.group else suppress(VTraceError)
        with reported, running("the instrumented pass"):  # methods that need it report the error
            session.layers()  # once, before anything is measured
    results: dict[str, Attribution] = {}
    costs: dict[str, Cost] = {}
    failures: dict[str, str] = {}
    for name in dict.fromkeys(methods):
        session.progress = partial(progress, label=name)
        session.progress(0, 0)
        run = partial(run_method, name, session, found, "target" if calibrated else None, **options.get(name, {}))
        try:
            with memory.measure():
                timed = session.timed(run)
        except VTraceError as error:
            if session.seam.group and error.__cause__:  # other processes may still be inside the method, and wait
                raise
            failures[name] = str(error)
            continue
        results[name] = timed.result
        costs[name] = Cost(timed.seconds, timed.own_seconds, timed.shared, memory.peak, timed.passes)
    if not results:
        raise InputError("no method could run: " + "; ".join(failures.values()))
    return Comparison(trace, found, results, costs, failures)


def rank(values: np.ndarray) -> np.ndarray:
    """Ranks from the smallest up; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
