"""Leave-one-out: the measured dependence. Blur one patch, or pad one word, and see what the target loses."""

from __future__ import annotations

from typing import Literal

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
    losses = work.left_out(((), *groups), radius)[:, tokens].sum(1)
    scores = torch.zeros(len(trace), dtype=torch.float64)
    for group, loss in zip(groups, losses[1:], strict=True):
        scores[list(group)] = float(losses[0] - loss) / len(group)
    return signed_as(sign, scores)
