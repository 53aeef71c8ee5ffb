"""FlashTrace (Pan et al., 2026): IFR of a weighted span, continued through the response tokens that got credit."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..types import ReadAt, Target, Trace
from .ifr import span_scores
from .outcome import Outcome
from .session import TraceSession

STOP = ("", ",", ".")  # tokens that carry no weight and get no credit, once blanks are stripped


def flashtrace(
    session: TraceSession,
    target: Target,
    *,
    hops: int = 1,
    bridge: Literal["generation", "thinking"] = "generation",
    receivers: ReadAt = "predictor",
    threshold: float = 0.0,
) -> Outcome:
    """Credit that reaches the bridge is traced further, `hops` times, weighted by how much reached each token.

    `bridge` "generation" is every response token except the end token and stop tokens (the public
    package's default); "thinking" is only the reasoning, including stop tokens (the paper's definition).
    """
    trace = session.trace
    soft = bridge == "generation"
    ends = _end(trace)
    low, high = trace.response_span if soft else trace.reasoning
    response = range(trace.prompt_length, len(trace))
    inside = torch.zeros(len(trace), dtype=torch.bool, device=session.device)
    inside[[p for p in response if p not in ends and trace.offsets[p][0] < high and trace.offsets[p][1] > low]] = True
    observed = torch.zeros_like(inside)
    observed[: trace.prompt_length] = True
    if soft:
        stop = stop_tokens(trace).to(session.device)
        inside &= ~stop
        observed &= ~stop
    output = [p for p in target.positions if p not in ends] or list(target.positions)
    carries = torch.tensor([not (soft and _is_stop(trace, p)) for p in output], device=session.device)
    weights = carries.float() if carries.any() else torch.ones(len(output), device=session.device)
    where = session.receivers(Target(target.name, tuple(output)), receivers)
    return _trace(session, where, weights, inside, observed, hops, threshold)


def _trace(
    session: TraceSession, where: Tensor, weights: Tensor, bridge: Tensor, observed: Tensor, hops: int, threshold: float
) -> Outcome:
    scores = span_scores(session, where, weights, threshold).scores
    total = scores * observed
    carried = scores * bridge
    reach = float(carried.sum() / scores.sum()) if scores.sum() > 0 else 0.0
    reaches = [reach]
    for _ in range(min(hops, len(session.trace))):  # every hop reaches earlier tokens
        if reach == 0:
            break
        members = carried.nonzero()[:, 0]
        scores = span_scores(session, members, carried[members], threshold).scores
        total += reach * scores * observed
        carried = scores * bridge
        reach *= float(carried.sum() / scores.sum()) if scores.sum() > 0 else 0.0
        reaches.append(reach)
    return Outcome(total, {"carried_on": reaches})


def stop_tokens(trace: Trace) -> Tensor:
    """T: text tokens from the question on that are blank, a comma or a full stop."""
    first = min(trace.positions("question"), default=trace.prompt_length)
    late = range(first, len(trace))
    stop = torch.zeros(len(trace), dtype=torch.bool)
    stop[[p for p in late if trace.kinds[p] != "image" and _is_stop(trace, p)]] = True
    return stop


def _is_stop(trace: Trace, position: int) -> bool:
    return trace.text[slice(*trace.offsets[position])].strip() in STOP


def _end(trace: Trace) -> set[int]:
    """Positions of the end token."""
    return {p for p in range(trace.prompt_length, len(trace)) if trace.offsets[p][0] >= trace.response_span[1]}
