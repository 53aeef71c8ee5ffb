"""The likelihood of one frozen response under perturbed inputs, and the curves made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import ModelError
from ..methods.session import TraceSession
from ..tracing.pictures import BLUR
from ..types import Setting, Trace
from .curves import (
    CURVE_STEPS,
    MODES,
    Curve,
    Mode,
    curve_of,
    groups_of,
    is_settled,
    mass_of,
    ranked,
    states_of,
)

STRIDE = 2  # steps that are measured between checks of which curves are settled


class CurveKind(NamedTuple):
    """Which inputs a curve perturbs, and in which direction."""

    setting: Setting
    mode: Mode


class _Path(NamedTuple):
    """The states along one curve, and their shares of |u|."""

    ranking: int
    kind: CurveKind
    states: list[frozenset[int]]
    mass: np.ndarray | None


class ResponseLikelihoods:
    """Likelihoods of one frozen response under perturbed inputs. States that methods, settings and directions share are
    measured once."""

    def __init__(self, session: TraceSession, radius: float = BLUR):
        self.trace = session.trace
        self._perturbation = session.perturbation(radius)
        self._known: dict[frozenset[int], np.ndarray] = {}

    @property
    def passes(self) -> int:
        """How many states went through the decoder so far."""
        return len(self._known)

    def measure(self, states: Iterable[frozenset[int]], tokens: Sequence[int] | None = None) -> list[float]:
        """exp(mean log p) of the response in each state, or of some of its tokens, which are counted from 0."""
        states = list(states)
        new = sorted({s for s in states if s not in self._known}, key=lambda s: (len(s), sorted(s)))
        if new:
            rows = self._perturbation.log_probabilities(new).cpu().numpy()
            if not np.isfinite(np.exp(rows.mean(axis=1))).all():
                raise ModelError("likelihoods are not finite; try dtype float32 or bfloat16")
            self._known.update(zip(new, rows, strict=True))
        chosen = slice(None) if tokens is None else list(tokens)
        return [float(np.exp(self._known[state][chosen].mean())) for state in states]

    def curves(
        self,
        rankings: Sequence[np.ndarray],
        settings: Sequence[Setting] = ("image", "joint"),
        steps: int = CURVE_STEPS,
    ) -> list[dict[CurveKind, Curve]]:
        """Curves of several scores (T each), measured together: their states go through the model in common batches."""
        paths = [
            _Path(number, CurveKind(setting, mode), states_of(groups, mode), mass_of(scores, groups))
            for number, scores in enumerate(rankings)
            for setting in settings
            for groups in [groups_of(ranked(scores, hideable_positions(self.trace, setting)), steps)]
            for mode in MODES
        ]
        found: list[dict[CurveKind, Curve]] = [{} for _ in rankings]
        for path, likelihoods in zip(paths, self._along(paths), strict=True):
            found[path.ranking][path.kind] = curve_of(likelihoods, path.mass, path.kind.mode)
        return found

    def _along(self, paths: Sequence[_Path]) -> list[list[float]]:
        """Likelihoods along each curve, a few steps of all of them at a time.

        If the rest of a curve cannot change its area, the likelihood at the end is used for the rest.
        """
        self.measure(path.states[k] for path in paths for k in (0, -1))
        values = [self.measure(path.states[:1]) for path in paths]
        ends = [self.measure(path.states[-1:]) for path in paths]

        def is_unsettled(k: int) -> bool:
            more = len(values[k]) < len(paths[k].states)
            return more and not is_settled([*values[k], *ends[k]], paths[k].kind.mode)

        while unsettled := [k for k in range(len(paths)) if is_unsettled(k)]:
            ahead = {k: paths[k].states[len(values[k]) : len(values[k]) + STRIDE] for k in unsettled}
            self.measure(state for states in ahead.values() for state in states)
            for k, states in ahead.items():
                values[k] += self.measure(states)
        return [own + end * (len(path.states) - len(own)) for own, end, path in zip(values, ends, paths, strict=True)]


def measured_settings(trace: Trace) -> tuple[Setting, ...]:
    """Which settings are measured: image and joint as in the paper; a prompt without a picture has only a question."""
    return ("image", "joint") if trace.patches else ("question",)


def hideable_positions(trace: Trace, setting: Setting) -> list[int]:
    """Positions that are perturbed: of the image, of the question, or of both."""
    return trace.positions("image", "question") if setting == "joint" else trace.positions(setting)
