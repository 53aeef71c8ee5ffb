"""Leave-one-out: measured dependence. Blur one patch, or pad one word, and measure what the target loses."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from ..tracing.pictures import BLUR
from ..types import Target
from .option_types import Sign
from .outcome import Outcome, signed_as
from .session import TraceSession


def leave_one_out(
    session: TraceSession,
    target: Target,
    *,
    unit: Literal["token", "word"] = "token",
    radius: float = BLUR,
    sign: Sign = "positive",
) -> Outcome:
    """Drop of the target's log-probability; `unit` "word" pads the tokens of a question word together."""
    trace = session.trace
    groups: list[tuple[int, ...]] = [(p,) for p in trace.positions("image")]
    if unit == "word":
        groups += [tuple(range(w.start, w.stop)) for w in trace.words if w.kind == "question"]
    else:
        groups += [(p,) for p in trace.positions("question")]
    tokens = [p - trace.prompt_length for p in target.positions]
    left = session.without(((), *groups), radius)[:, tokens].sum(1)
    scores = torch.zeros(len(trace), dtype=torch.float64)
    for group, value in zip(groups, left[1:], strict=True):
        scores[list(group)] = float(left[0] - value) / len(group)
    return signed_as(sign, scores)


def measured_dependence(session: TraceSession, radius: float = BLUR) -> np.ndarray:
    """Drop of the likelihood of the response, exp(mean log p), without each image or question token: T."""
    inputs = session.inputs
    left = session.without(((), *((p,) for p in inputs)), radius).mean(1).exp().cpu().numpy()
    scores = np.zeros(len(session.trace))
    scores[inputs] = left[0] - left[1:]
    return scores
