"""Gradients of the embeddings: gradient × input, and integrated gradients (Sundararajan et al., 2017)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..lvlm.gradients import Graph
from ..system.wide_numbers import wide
from ..types import Target
from .option_types import Count, Sign
from .outcome import Outcome, signed_as
from .session import TraceSession

POWER = 3  # points are denser near the start of the line, where norms make the slope steep


def gradient(session: TraceSession, target: Target, *, sign: Sign = "absolute") -> Outcome:
    """Embedding times gradient of the target's logits, summed over features; DeepStack rows count for their patch."""
    return signed_as(sign, session.gradient(target).times_input(session.trace.positions("image")))


def integrated_gradients(
    session: TraceSession,
    target: Target,
    *,
    steps: Count = 64,
    tolerance: float = 0.05,
    max_steps: Count = 576,
    sign: Sign = "positive",
) -> Outcome:
    """Gradients of the target's log-probability, integrated along a straight line from padded to real inputs.

    `steps` are tripled, up to `max_steps`, until at most the fraction `tolerance` of the change of the log-probability
    is unexplained.
    """
    line = _Line(session, target)
    change = line.change()
    total, count, places = line.empty(), 0, _middles(steps)
    while True:
        for done, place in enumerate(places, start=1):
            total += line.slope(place)
            session.progress(count + done, count + len(places))
        count += len(places)
        unexplained = change - float(total.sum()) / count
        enough = abs(unexplained) <= tolerance * abs(change)
        if enough or 3 * count > max_steps:
            break
        places = _between(count)
    details: dict[str, Any] = {"change": change, "unexplained": unexplained, "steps": count}
    if not enough:
        rest = f"{abs(unexplained):.3g} of {abs(change):.3g} nats"
        details["warnings"] = [f"after {count} steps, {rest} are unexplained; raise max_steps"]
    return signed_as(sign, total / count, details)


def _middles(count: int) -> list[float]:
    """Midpoints of `count` equal parts of the line from 0 to 1."""
    return [(k + 0.5) / count for k in range(count)]


def _between(count: int) -> list[float]:
    """Midpoints of 3 · `count` parts, without every third one, which is already a midpoint of `count` parts."""
    return [place for k, place in enumerate(_middles(3 * count)) if k % 3 != 1]


class _Line:
    """The straight line from padded inputs to the real ones."""

    def __init__(self, session: TraceSession, target: Target):
        self.session, self.target = session, target
        self._image = session.trace.positions("image")
        full = session.seam.inputs(session.arguments)
        self._base = session.seam.inputs(session.seam.pad(session.arguments, [session.inputs]))
        self._change = [a - b for a, b in zip(full, self._base, strict=True)]

    def empty(self) -> Tensor:
        return torch.zeros(len(self.session.trace), dtype=torch.float64, device=self.session.device)

    def slope(self, place: float) -> Tensor:
        """What each position adds to the log-probability at a point of the line, per unit of length: T."""
        seam, arguments = self.session.seam, self.session.arguments
        share, weight = place**POWER, POWER * place ** (POWER - 1)
        mixed = [b + share * c for b, c in zip(self._base, self._change, strict=True)]
        there = seam.family.with_extras({**arguments, "inputs_embeds": mixed[0]}, mixed[1:])
        graph = Graph(seam, there, self.session.ids, self.target.positions, heads=False)
        grads = graph.gradient(graph.log_probabilities.sum()).by_input
        products = [wide((c.float() * g.float()).sum(-1)) * weight for c, g in zip(self._change, grads, strict=True)]
        total = products[0][0]
        for rows in products[1:]:
            total[self._image] += rows
        return total

    def change(self) -> float:
        """Change of the target's log-probability from one end of the line to the other."""
        session, start = self.session, self.session.trace.prompt_length
        tokens = [p - start for p in self.target.positions]
        ends = session.seam.log_probabilities_padded(session.arguments, session.ids, start, [[], session.inputs])
        return float(ends[0, tokens].sum() - ends[1, tokens].sum())
