"""Gradients of the embeddings: gradient × input, and integrated gradients (Sundararajan et al., 2017)."""

from __future__ import annotations

import torch

from ..lvlm.gradients import Graph
from ..types import Target
from .choices import Count, Sign
from .signs import signed_as
from .work import Outcome, Work

POWER = 3  # steps on the line lie closer together near its start, where the norms make the slope steep


def gradient(work: Work, target: Target, *, sign: Sign = "absolute") -> Outcome:
    """Embedding times gradient of the target's logits, summed over features; DeepStack rows count for their patch."""
    return signed_as(sign, work.gradient(target).times_input(work.trace.positions("image")))


def integrated_gradients(work: Work, target: Target, *, steps: Count = 64, sign: Sign = "positive") -> Outcome:
    """From padded inputs to the real ones on a straight line; what is summed is the target's log-probability."""
    seam, image = work.seam, work.trace.positions("image")
    full = seam.inputs(work.arguments)
    base = seam.inputs(seam.pad(work.arguments, [work.inputs]))
    change = [a - b for a, b in zip(full, base, strict=True)]
    total = torch.zeros(len(work.trace), dtype=torch.float64, device=work.device)
    for step in range(steps):
        place = (step + 0.5) / steps
        share, weight = place**POWER, POWER * place ** (POWER - 1) / steps
        mixed = [b + share * c for b, c in zip(base, change, strict=True)]
        arguments = seam.family.with_extras({**work.arguments, "inputs_embeds": mixed[0]}, mixed[1:])
        graph = Graph(seam, arguments, work.ids, target.positions, heads=False)
        grads = graph.gradient(graph.log_probabilities.sum()).by_input
        products = [(c.float() * g.float()).sum(-1).double() * weight for c, g in zip(change, grads, strict=True)]
        total += products[0][0]
        for rows in products[1:]:
            total[image] += rows
        work.progress(step + 1, steps)
    start = work.trace.prompt_length
    tokens = [p - start for p in target.positions]
    ends = seam.log_probabilities_padded(work.arguments, work.ids, start, [[], work.inputs])[:, tokens].sum(1)
    difference = float(ends[0] - ends[1])
    return signed_as(sign, total, {"change": difference, "unexplained": difference - float(total.sum())})
