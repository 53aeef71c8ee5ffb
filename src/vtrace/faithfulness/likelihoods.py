"""Faithfulness of attributions of one trace: states are shared between methods, settings and directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from ..errors import ModelError
from ..methods.session import TraceSession
from ..tracing.perturbation import BLUR
from .curves import STEPS, Curve, Mode, curve_of, groups_of, is_settled, mass_of, ranked, states_of

Setting = Literal["image", "question", "joint"]
MODES: tuple[Mode, ...] = ("insertion", "deletion")
STRIDE = 2  # steps that are measured before it is asked again which curves are settled


class Measure:
    """Likelihoods of one frozen response under perturbed inputs. Equal states are computed once."""

    def __init__(self, session: TraceSession, radius: float = BLUR):
        self.trace = session.trace
        self._perturbation = session.perturbation(radius)
        self._known: dict[frozenset[int], float] = {}

    def likelihoods(self, states: Iterable[frozenset[int]]) -> list[float]:
        """exp(mean log p) of the response in each state."""
        states = list(states)
        new = sorted({s for s in states if s not in self._known}, key=lambda s: (len(s), sorted(s)))
        if new:
            values = self._perturbation.log_probabilities(new).mean(dim=1).exp()
            if not values.isfinite().all():
                raise ModelError("likelihoods are not finite; try dtype float32 or bfloat16")
            self._known.update(zip(new, values.tolist(), strict=True))
        return [self._known[state] for state in states]

    def deletable(self, setting: Setting) -> list[int]:
        """Positions that are perturbed: of the image, of the question, or of both."""
        return self.trace.positions("image", "question") if setting == "joint" else self.trace.positions(setting)

    def curves(
        self, rankings: Sequence[np.ndarray], settings: Sequence[Setting] = ("image", "joint"), steps: int = STEPS
    ) -> list[dict[tuple[Setting, Mode], Curve]]:
        """Curves of several scores (T each), measured together: their states go through the model in common batches."""
        plans = [
            (number, setting, mode, states_of(groups, mode), mass_of(scores, groups))
            for number, scores in enumerate(rankings)
            for setting in settings
            for groups in [groups_of(ranked(scores, self.deletable(setting)), steps)]
            for mode in MODES
        ]
        values = self._along([(states, mode) for _, _, mode, states, _ in plans])
        found: list[dict[tuple[Setting, Mode], Curve]] = [{} for _ in rankings]
        for (number, setting, mode, _, mass), likelihoods in zip(plans, values, strict=True):
            found[number][setting, mode] = curve_of(likelihoods, mass, mode)
        return found

    def _along(self, curves: Sequence[tuple[Sequence[frozenset[int]], Mode]]) -> list[list[float]]:
        """Likelihoods along each curve, a few steps of all of them at a time.

        Where the rest of a curve cannot differ from its end, the likelihood of the end stands for the rest.
        """
        self.likelihoods(states[k] for states, _ in curves for k in (0, -1))
        values = [self.likelihoods(states[:1]) for states, _ in curves]
        ends = [self.likelihoods(states[-1:]) for states, _ in curves]

        def goes_on(k: int) -> bool:
            states, mode = curves[k]
            return len(values[k]) < len(states) and not is_settled([*values[k], *ends[k]], mode)

        while going := [k for k in range(len(curves)) if goes_on(k)]:
            ahead = {k: curves[k][0][len(values[k]) : len(values[k]) + STRIDE] for k in going}
            self.likelihoods(state for states in ahead.values() for state in states)
            for k, states in ahead.items():
                values[k] += self.likelihoods(states)
        return [own + end * (len(c[0]) - len(own)) for own, end, c in zip(values, ends, curves, strict=True)]
