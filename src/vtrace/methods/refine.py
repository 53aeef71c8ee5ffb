"""Refining: the inputs that a method ranks first are hidden one at a time, and what that costs becomes their score.

Everything else keeps its order below them. So a few passes put right the top of a ranking, which is what a reader looks
at, instead of one pass for every input. On large grids, squares of patches are hidden first (see `hidden_groups`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..attribution.options import CalibrateOn
from ..attribution.result import Attribution
from ..errors import InputError, ModelError
from ..tracing.pictures import BLUR
from ..types import Calibration
from .catalogue import DEFAULT_BUDGET, REFINED
from .hidden_groups import LARGE_GRID, Positions, drops_of_inputs, first_groups, hide_strongest, quarters
from .option_types import Count
from .session import TraceSession

BELOW = 1e-6  # of all measured drops: the most that an input gets which was not hidden


def refine(
    session: TraceSession,
    found: Attribution,
    *,
    budget: Count = DEFAULT_BUDGET,
    share: float | None = None,
    measured_on: CalibrateOn = "response",
    radius: float = BLUR,
) -> Attribution:
    """Hide the `budget` strongest inputs of an attribution, and score them by the log-likelihood that is lost.

    `share` sets the budget as a share of all inputs instead. `measured_on` says whose likelihood: that of the whole
    response, as in perturbation curves, or that of the target.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError(f"share is {share}; it must be above 0 and at most 1")
    trace, inputs = session.trace, session.trace.positions("image", "question")
    if not inputs:
        raise InputError("there is nothing to hide: the prompt has no patches or question words")
    weights = np.abs(found.scores)
    budget = budget if share is None else math.ceil(share * len(inputs))
    passes = min(budget, len(inputs))
    tokens = found.target.positions if measured_on == "target" else range(trace.prompt_length, len(trace))
    measure = _Drops(session, [position - trace.prompt_length for position in tokens], radius)
    groups = first_groups(trace, max(LARGE_GRID, budget))
    hidden = hide_strongest(groups, weights, passes, partial(quarters, trace), measure)
    drops = drops_of_inputs(hidden, weights)
    scores = found.scores.copy()
    scores[inputs] = above_others(weights[inputs], {inputs.index(p): drop for p, drop in drops.items()})
    total = float(scores[inputs].sum())
    scores[inputs] /= total
    warnings = list(found.details.get("warnings", []))
    if budget > len(inputs):
        warnings.append(f"budget {budget} is more than there are inputs: all {len(inputs)} of them were hidden")
    return replace(
        found,
        method=found.method + REFINED,
        options={**found.options, "budget": budget, "measured_on": measured_on, "radius": radius},
        scores=scores,
        log_scale=math.log(total),
        calibration=Calibration("off: the strongest inputs were measured by hiding them"),
        details={
            **found.details,
            "refinement": {"passes": measure.passes, "drops": {str(p): drop for p, drop in sorted(drops.items())}},
            **({"warnings": warnings} if warnings else {}),
        },
        pairwise=None,  # paths explain the ranking that was refined, not this one
    )


class _Drops:
    """Hides groups of inputs and measures the log-likelihood of some response tokens; counts its passes."""

    def __init__(self, session: TraceSession, tokens: Sequence[int], radius: float):
        self._session, self._tokens, self._radius = session, tokens, radius
        self._clean: float | None = None
        self.passes = 0

    def __call__(self, groups: list[Positions]) -> list[float]:
        states = groups if self._clean is not None else [(), *groups]
        rows = self._session.without(tuple(states), self._radius)[:, self._tokens].sum(1).tolist()
        self.passes += len(states)
        if not all(map(math.isfinite, rows)):
            raise ModelError("likelihoods are not finite while inputs are hidden; try dtype float32 or bfloat16")
        if self._clean is None:
            self._clean, *rows = rows
        return [self._clean - row for row in rows]


def above_others(weights: np.ndarray, drops: Mapping[int, float]) -> np.ndarray:
    """Scores of all inputs: the measured drops, and below them the others in the order of their weights.

    What does not cost anything still ranks above what was not measured.
    """
    measured = sorted(drops, key=lambda k: drops[k])
    unit = BELOW * (sum(max(0.0, drop) for drop in drops.values()) or 1.0)
    rest = np.delete(weights, measured)
    scores = unit * weights / (float(rest.max(initial=0.0)) or 1.0)
    for place, k in enumerate(measured, start=1):
        scores[k] = max(0.0, drops[k]) + unit * (1 + place / len(measured))
    return scores
