"""Evidence for one answer against another: both are teacher-forced after the same reasoning.

VTrace's matrix says what a position reads, not which token it predicts: two answers that differ in their first token
are predicted at the same position, and would get the same evidence for it. So what is summed here are the same centred
writes as in stage 1, along the gradient of the answer's logits instead of the receiver's own update. The gradient has a
sign, and follows all later paths. Logits, because the gradient of a likelihood vanishes where the model is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from ..attribution.findings.contrast import Contrast, contrast_of
from ..attribution.pairwise import centre_values, stacked_edges
from ..errors import InputError, ModelError, running
from ..lvlm.gradients import Graph
from ..lvlm.model import Lvlm
from ..tracing.alternative import with_alternative
from ..tracing.targets import TargetSpec, find_target
from ..types import Target, Trace
from .registry import find_method, run_method
from .session import TraceSession

SIGNED = ("gradient", "ig", "attnlrp", "loo")  # methods whose scores have a sign


class SignedEvidence(NamedTuple):
    """What every position adds to the logits of a target, to first order, and the target's log-likelihood."""

    scores: np.ndarray  # T
    log_likelihood: float


def contrast(
    lvlm: Lvlm, trace: Trace, against: str, target: TargetSpec = "answer", method: str | None = None
) -> Contrast:
    """Why does the response say this, and not `against`?

    Args:
        lvlm: the model, from `load`.
        trace: its frozen response, from `trace`.
        against: what it could have said instead of the target.
        target: the part of the response that the alternative replaces: one run of tokens.
        method: "vtrace", or one of the methods whose scores have a sign: gradient, ig, attnlrp, loo. Default: vtrace,
            or gradient for hybrid decoders, in which some layers have no attention.
    """
    method = method or ("gradient" if lvlm.seam.hybrid else "vtrace")
    evidence_by = _signed_method(method, lvlm)
    found = find_target(trace, target)
    if found.positions[0] == trace.prompt_length:
        raise InputError(f"nothing comes before {found.name}; contrast a part of the response, such as target answer")
    other = with_alternative(lvlm, trace, found, against)
    said, first = len(found.positions), found.positions[0]
    replaced = Target(against, tuple(range(first, first + said + len(other) - len(trace))))
    with running(f"contrast by {method}"):
        one = evidence_by(TraceSession.open(lvlm, trace), found)
        two = evidence_by(TraceSession.open(lvlm, other), replaced)
    own, alternative = np.zeros(len(trace)), np.zeros(len(trace))
    own[:first], alternative[:first] = one.scores[:first], two.scores[:first]
    text = "".join(trace.text[slice(*trace.offsets[p])] for p in found.positions).strip()
    likelihoods = one.log_likelihood, two.log_likelihood
    return contrast_of(text, against.strip(), method, own, alternative, likelihoods, trace.inputs)


def _signed_method(method: str, lvlm: Lvlm) -> Callable[[TraceSession, Target], SignedEvidence]:
    find_method(method)
    if method == "vtrace":
        if lvlm.seam.hybrid:
            raise ModelError("vtrace contrasts answers only where all layers have attention; use gradient, ig or loo")
        return written_evidence
    if method not in SIGNED:
        raise InputError(f"scores of {method} have no sign; contrast answers by one of: vtrace, {', '.join(SIGNED)}")
    return lambda session, target: _signed_scores(method, session, target)


def written_evidence(session: TraceSession, target: Target) -> SignedEvidence:
    """Centred writes of all layers and heads along the gradient of the sum of the target's logits, summed over
    receivers: one instrumented pass, one differentiable pass, and one backward pass."""
    graph = Graph(session.seam, session.arguments, session.ids, target.positions)
    gradient = graph.gradient(graph.logits.sum())
    kinds = [session.trace.positions("image"), session.trace.positions("question")]
    groups = [torch.tensor(positions, device=session.device) for positions in kinds if positions]
    scores = torch.zeros(len(session.trace), dtype=torch.float64)
    every = slice(0, len(session.trace))
    for layer, reading in zip(session.layers(), gradient.by_head, strict=True):
        value = centre_values(layer.value.float(), groups)
        for rows, edges in stacked_edges(layer, value, reading.float(), every):
            received = layer.whole(edges[0].tril(rows.start - 1).sum(0))  # no token writes into itself
            scores[: len(received)] += received.cpu().double()
    return SignedEvidence(scores.numpy(), float(graph.log_probabilities.detach().sum()))


def _signed_scores(method: str, session: TraceSession, target: Target) -> SignedEvidence:
    """Signed scores as the method computes them, before they become shares."""
    found = run_method(method, session, target)
    clean = session.seam.log_probabilities(session.arguments, session.ids, session.trace.prompt_length)[0]
    tokens = [p - session.trace.prompt_length for p in target.positions]
    return SignedEvidence(np.array(found.details["signed"]), float(clean[tokens].sum()))
