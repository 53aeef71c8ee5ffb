"""Refining: the inputs that a method ranks first are hidden one at a time, and what that costs becomes their score.

Everything else keeps its order below them. So a few passes put right the top of a ranking, which is what a reader looks
at, instead of one pass for every input. On large grids, squares of patches come first (see `measured_groups`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from ..attribution.options import CalibrateOn
from ..attribution.result import Attribution
from ..errors import InputError, ModelError
from ..tracing.pictures import BLUR
from ..types import Calibration
from .catalogue import DEFAULT_BUDGET, REFINED
from .measured_groups import LARGE_GRID, Positions, first_groups, measure_strongest, quarters, worth_of_inputs
from .option_types import Count
from .session import TraceSession

Sides = Literal["both", "hidden"]
BELOW = 1e-6  # of what all measured inputs are worth: the most that any other input gets


def refine(
    session: TraceSession,
    found: Attribution,
    *,
    budget: Count = DEFAULT_BUDGET,
    share: float | None = None,
    sides: Sides = "hidden",
    measured_on: CalibrateOn = "response",
    radius: float = BLUR,
) -> Attribution:
    """Measure the `budget` strongest inputs of an attribution one at a time, and score them by what they are worth.

    `share` sets the budget as a share of all inputs instead. `sides`: the log-likelihood that is lost when the input is
    hidden, or the mean of that and of what is gained when nothing else is shown, which two inputs that stand in for
    each other do not lose. `measured_on` says whose likelihood: that of the whole response, as in perturbation curves,
    or that of the target.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError(f"share is {share}; it must be above 0 and at most 1")
    trace, inputs = session.trace, session.trace.positions("image", "question")
    if not inputs:
        raise InputError("there is nothing to hide: the prompt has no patches or question words")
    weights = np.abs(found.scores)
    budget = budget if share is None else math.ceil(share * len(inputs))
    count = min(budget, len(inputs))
    tokens = found.target.positions if measured_on == "target" else range(trace.prompt_length, len(trace))
    measure = _Worth(session, [position - trace.prompt_length for position in tokens], radius, sides)
    groups = first_groups(trace, max(LARGE_GRID, budget))
    measured = measure_strongest(groups, weights, count, partial(quarters, trace), measure)
    worth = worth_of_inputs(measured, weights)
    scores = found.scores.copy()
    scores[inputs] = above_others(weights[inputs], {inputs.index(p): value for p, value in worth.items()})
    total = float(scores[inputs].sum())
    scores[inputs] /= total
    warnings = list(found.details.get("warnings", []))
    if budget > len(inputs):
        warnings.append(f"budget {budget} is more than there are inputs: all {len(inputs)} of them were measured")
    return replace(
        found,
        method=found.method + REFINED,
        options={**found.options, "budget": budget, "sides": sides, "measured_on": measured_on, "radius": radius},
        scores=scores,
        log_scale=math.log(total),
        calibration=Calibration("off: the strongest inputs were measured one at a time"),
        details={
            **found.details,
            "refinement": {"passes": measure.passes, "worth": {str(p): value for p, value in sorted(worth.items())}},
            **({"warnings": warnings} if warnings else {}),
        },
        pairwise=None,  # paths explain the ranking that was refined, not this one
    )


class _Worth:
    """What groups of inputs are worth to some response tokens, in nats; counts its passes."""

    def __init__(self, session: TraceSession, tokens: Sequence[int], radius: float, sides: Sides):
        self._session, self._tokens, self._radius = session, tokens, radius
        self._every = tuple(session.trace.positions("image", "question"))
        self._sides = sides
        self._starts: dict[Positions, float] = {}
        self.passes = 0

    def __call__(self, groups: list[Positions]) -> list[float]:
        lost = self._changes((), groups)
        if self._sides == "hidden":
            return [-change for change in lost]
        gained = self._changes(self._every, [self._others(group) for group in groups])
        return [(max(0.0, -loss) + max(0.0, gain)) / 2 for loss, gain in zip(lost, gained, strict=True)]

    def _others(self, group: Positions) -> Positions:
        return tuple(position for position in self._every if position not in group)

    def _changes(self, start: Positions, hidden: list[Positions]) -> list[float]:
        """Of the log-likelihood, from one set of hidden inputs to each of several others."""
        states = hidden if start in self._starts else [start, *hidden]
        rows = self._session.without(tuple(states), self._radius)[:, self._tokens].sum(1).tolist()
        self.passes += len(rows)
        if not all(map(math.isfinite, rows)):
            raise ModelError("likelihoods are not finite while inputs are hidden; try dtype float32 or bfloat16")
        if start not in self._starts:
            self._starts[start], *rows = rows
        return [row - self._starts[start] for row in rows]


def above_others(weights: np.ndarray, worth: Mapping[int, float]) -> np.ndarray:
    """Scores of all inputs: what the measured ones are worth, and below them the others in the order of their weights.

    What is worth nothing still ranks above what was not measured.
    """
    measured = sorted(worth, key=lambda k: worth[k])
    unit = BELOW * (sum(max(0.0, value) for value in worth.values()) or 1.0)
    rest = np.delete(weights, measured)
    scores = unit * weights / (float(rest.max(initial=0.0)) or 1.0)
    for place, k in enumerate(measured, start=1):
        scores[k] = max(0.0, worth[k]) + unit * (1 + place / len(measured))
    return scores
