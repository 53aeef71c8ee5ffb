"""Faithfulness of attributions of one trace: states are shared between methods, settings and directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from ..lvlm import Lvlm
from ..perturb import BLUR, Perturbation
from ..types import Trace
from .curves import STEPS, Curve, Mode, curve_of, groups_of, mass_of, ranked, states_of

Setting = Literal["image", "question", "joint"]
MODES: tuple[Mode, ...] = ("insertion", "deletion")


class Measure:
    """Likelihoods of one frozen response under perturbed inputs. Equal states are computed once."""

    def __init__(self, lvlm: Lvlm, trace: Trace, radius: float = BLUR):
        self.trace = trace
        self._perturbation = Perturbation(lvlm, trace, radius)
        self._known: dict[frozenset[int], float] = {}

    def likelihoods(self, states: Iterable[frozenset[int]]) -> list[float]:
        """exp(mean log p) of the response in each state."""
        states = list(states)
        new = sorted({s for s in states if s not in self._known}, key=lambda s: (len(s), sorted(s)))
        if new:
            values = self._perturbation.log_probabilities(new).mean(dim=1).exp().tolist()
            self._known.update(zip(new, values, strict=True))
        return [self._known[state] for state in states]

    def deletable(self, setting: Setting) -> list[int]:
        """Positions that are perturbed: of the image, of the question, or of both."""
        return self.trace.positions("image", "question") if setting == "joint" else self.trace.positions(setting)

    def curves(
        self, rankings: Sequence[np.ndarray], settings: Sequence[Setting] = ("image", "joint"), steps: int = STEPS
    ) -> list[dict[tuple[Setting, Mode], Curve]]:
        """Curves of several scores (T each), measured together: their states go through the model in common batches."""
        plans = []
        for scores in rankings:
            for setting in settings:
                groups = groups_of(ranked(scores, self.deletable(setting)), steps)
                plans.append((groups, mass_of(scores, groups)))
        self.likelihoods(s for groups, _ in plans for mode in MODES for s in states_of(groups, mode))
        found = []
        for k in range(len(rankings)):
            own = zip(settings, plans[k * len(settings) : (k + 1) * len(settings)], strict=True)
            found.append(
                {
                    (setting, mode): curve_of(self.likelihoods(states_of(groups, mode)), mass, mode)
                    for setting, (groups, mass) in own
                    for mode in MODES
                }
            )
        return found
