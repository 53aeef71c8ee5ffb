"""Leave-one-out: the measured dependence. Blur one patch, or pad one word, and see what the target loses."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from ..perturb import BLUR
from ..types import Target
from .choices import Sign
from .signs import signed_as
from .work import Outcome, Work


def leave_one_out(
    work: Work,
    target: Target,
    *,
    unit: Literal["token", "word"] = "token",
    radius: float = BLUR,
    sign: Sign = "positive",
) -> Outcome:
    """Drop of the target's log-probability; `unit` "word" pads the tokens of a question word together."""
    trace = work.trace
    groups: list[tuple[int, ...]] = [(p,) for p in trace.positions("image")]
    if unit == "word":
        groups += [tuple(range(w.start, w.stop)) for w in trace.words if w.kind == "question"]
    else:
        groups += [(p,) for p in trace.positions("question")]
    tokens = [p - trace.prompt_length for p in target.positions]
    left = work.left_out(((), *groups), radius)[:, tokens].sum(1)
    scores = torch.zeros(len(trace), dtype=torch.float64)
    for group, value in zip(groups, left[1:], strict=True):
        scores[list(group)] = float(left[0] - value) / len(group)
    return signed_as(sign, scores)


def measured_dependence(work: Work, radius: float = BLUR) -> np.ndarray:
    """T: what the likelihood of the response, exp(mean log p), loses without each image or question token."""
    inputs = work.inputs
    left = work.left_out(((), *((p,) for p in inputs)), radius).mean(1).exp().cpu().numpy()
    scores = np.zeros(len(work.trace))
    scores[inputs] = left[0] - left[1:]
    return scores
