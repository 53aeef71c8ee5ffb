"""Token budget: how many top-ranked tokens are image tokens, and how much of the answer they alone recover."""

from __future__ import annotations

import numpy as np

from ..faithfulness.curves import ranked
from ..methods.session import TraceSession
from ..tracing.targets import find_target
from .catalogue import STUDY_SUBJECTS
from .method_scores import COMPARED_METHODS, method_scores
from .point_plots import PlotPanel
from .point_study import Point, PointStudy

BUDGETS = (1, 2, 5, 10, 20, 30, 50)  # per cent of image and question tokens
MATTERS = 0.01  # an answer whose probability falls by less without all inputs is copied from the frozen reasoning


def budget_points(session: TraceSession, blur: float, seed: int) -> list[Point]:
    """For the top-ranked k % of image and question tokens: the share of image tokens, and how much of the answer's
    probability they recover when only they are shown, for answers that need the inputs."""
    trace = session.trace
    target, image = find_target(trace, "answer"), set(trace.positions("image"))
    inputs = trace.positions("image", "question")
    shown = {
        (name, k): order[: max(1, round(k / 100 * len(inputs)))]
        for name in COMPARED_METHODS
        for order in [ranked(method_scores(name, session, target, seed), inputs)]
        for k in BUDGETS
    }
    states = [inputs, [], *(set(inputs).difference(kept) for kept in shown.values())]
    answer = [p - trace.prompt_length for p in target.positions]
    nothing, everything, *chances = (
        session.perturbation(blur).log_probabilities(states)[:, answer].mean(1).exp().tolist()
    )
    points = []
    for (name, k), chance in zip(shown, chances, strict=True):
        points.append(Point("image tokens", name, k, 100 * float(np.mean([p in image for p in shown[name, k]]))))
        if everything - nothing > MATTERS:
            recovered = (chance - nothing) / (everything - nothing)
            points.append(Point("recovery", name, k, float(np.clip(recovered, 0, 1))))
    return points


BUDGET_STUDY = PointStudy(
    "budget",
    STUDY_SUBJECTS["budget"],
    {
        "image tokens": PlotPanel("top-ranked tokens, %", "image tokens among them, %", log_x=True),
        "recovery": PlotPanel("top-ranked tokens shown, %", "recovered probability of the answer", log_x=True),
    },
    budget_points,
)
