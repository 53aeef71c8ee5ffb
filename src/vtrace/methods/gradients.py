"""Gradients of the embeddings: gradient × input, and integrated gradients (Sundararajan et al., 2017)."""

from __future__ import annotations

import torch

from ..lvlm.gradients import Graph
from ..types import Target
from .option_types import Count, Sign
from .outcome import Outcome, signed_as
from .session import TraceSession

POWER = 3  # steps on the line lie closer together near its start, where the norms make the slope steep


def gradient(session: TraceSession, target: Target, *, sign: Sign = "absolute") -> Outcome:
    """Embedding times gradient of the target's logits, summed over features; DeepStack rows count for their patch."""
    return signed_as(sign, session.gradient(target).times_input(session.trace.positions("image")))


def integrated_gradients(
    session: TraceSession, target: Target, *, steps: Count = 64, sign: Sign = "positive"
) -> Outcome:
    """From padded inputs to the real ones on a straight line; what is summed is the target's log-probability."""
    seam, image = session.seam, session.trace.positions("image")
    full = seam.inputs(session.arguments)
    base = seam.inputs(seam.pad(session.arguments, [session.inputs]))
    change = [a - b for a, b in zip(full, base, strict=True)]
    total = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)
    for step in range(steps):
        place = (step + 0.5) / steps
        share, weight = place**POWER, POWER * place ** (POWER - 1) / steps
        mixed = [b + share * c for b, c in zip(base, change, strict=True)]
        arguments = seam.family.with_extras({**session.arguments, "inputs_embeds": mixed[0]}, mixed[1:])
        graph = Graph(seam, arguments, session.ids, target.positions, heads=False)
        grads = graph.gradient(graph.log_probabilities.sum()).by_input
        products = [(c.float() * g.float()).sum(-1).double() * weight for c, g in zip(change, grads, strict=True)]
        total += products[0][0]
        for rows in products[1:]:
            total[image] += rows
        session.progress(step + 1, steps)
    start = session.trace.prompt_length
    tokens = [p - start for p in target.positions]
    ends = seam.log_probabilities_padded(session.arguments, session.ids, start, [[], session.inputs])[:, tokens].sum(1)
    difference = float(ends[0] - ends[1])
    return signed_as(sign, total, {"change": difference, "unexplained": difference - float(total.sum())})
