"""Sanity checks: does an attribution change if the weights, or the response, are not the model's own?

Weights are randomised cumulatively, from the top layer of the decoder down, and the same frozen response is explained
again. An attribution that stays the same does not depend on what the model has learnt. Likewise, evidence for the
model's own response should be found less well for a response that does not belong to the question.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..faithfulness.evidence import evidence_positions, localisation, other_positions
from ..faithfulness.plan import item_seed
from ..faithfulness.rows import EvidenceKind
from ..lvlm.model import Lvlm
from ..methods.comparison import rank
from ..methods.session import TraceSession
from ..tracing.generate import retrace
from ..tracing.reply import Reply
from ..tracing.targets import find_target
from ..types import Example, Trace
from .catalogue import STUDY_SUBJECTS
from .method_scores import method_scores
from .point_plots import PlotPanel
from .point_study import Point, points_report
from .study import Findings, Study, StudyReport, StudySetup

CHECKED_METHODS = ("vtrace", "vtrace-ordered", "ifr", "flashtrace", "attnlrp", "position")  # the last is a control
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the decoder's layers, from the top down
RESPONSES = {0.0: "own", 1.0: "shuffled", 2.0: "foreign"}
_EVIDENCE = "AUC of the evidence against others"
_RANDOMISED = "layers randomised, from the top, %"
PANELS = {
    "weights": PlotPanel(_RANDOMISED, "rank correlation with the trained model"),
    "weights, evidence": PlotPanel(_RANDOMISED, _EVIDENCE),
    "responses": PlotPanel("response", "rank correlation with the own response", ticks=RESPONSES),
    "responses, evidence": PlotPanel("response", _EVIDENCE, ticks=RESPONSES),
}


@dataclass(frozen=True)
class SanityStudy(Study[list[Point]]):
    """Explains a response with randomised weights, and other responses with the trained ones."""

    name: str = "sanity"
    about: str = STUDY_SUBJECTS["sanity"]
    limit: int = 24

    def measure(self, setup: StudySetup, number: int, before: list[Point] | None) -> list[Point]:
        own, seed = setup.freeze(number), item_seed(setup.seed, number)
        example = setup.benchmark.example(number)
        reply, foreign = reply_of(own), reply_of(setup.freeze((number + 1) % setup.benchmark.size))
        asked = [retrace(setup.lvlm, example, each, own.system) for each in (reply, shuffled(reply, seed), foreign)]
        explained = (TraceSession.open(setup.lvlm, trace) for trace in asked)
        randomised = (TraceSession.open(lvlm, own) for lvlm in cascade(setup.lvlm, seed))
        return [
            *_points("responses", zip(RESPONSES, explained, strict=True), example, seed),
            *_points("weights", zip([100 * share for share in SHARES], randomised, strict=True), example, seed),
        ]

    def decode(self, value: Any) -> list[Point]:
        return [Point(*point) for point in value]

    def report(self, findings: Findings[list[Point]]) -> StudyReport:
        measured = {point.panel for points in findings.found.values() for point in points}
        return points_report({name: panel for name, panel in PANELS.items() if name in measured}, findings)


def reply_of(trace: Trace) -> Reply:
    """The response of a trace, to be explained elsewhere."""
    return Reply(list(trace.ids[trace.prompt_length :]), "supplied")


def shuffled(reply: Reply, seed: int) -> Reply:
    """The same tokens in random order; the last one, which ends most responses, stays where it is."""
    *tokens, last = reply.ids
    random.Random(seed).shuffle(tokens)
    return reply._replace(ids=[*tokens, last])


def cascade(lvlm: Lvlm, seed: int) -> Iterator[Lvlm]:
    """The model with more and more of its layers randomised: every weight tensor gets its own values in random order.
    All are one copy, which changes from one to the next."""
    changed = replace(lvlm, model=copy.deepcopy(lvlm.model))
    layers, generator = list(changed.seam.decoder.layers), torch.Generator().manual_seed(seed)
    done = 0
    for share in SHARES:
        wanted = round(share * len(layers))
        for layer in layers[len(layers) - wanted : len(layers) - done]:
            for weights in layer.parameters():
                order = torch.randperm(weights.numel(), generator=generator).to(weights.device)
                weights.data = weights.data.flatten()[order].view_as(weights)
        done = wanted
        yield changed


def _points(panel: str, sessions: Iterable[tuple[float, TraceSession]], example: Example, seed: int) -> Iterator[Point]:
    """For every session, how its scores correlate with those of the first, and how well they find the evidence."""
    first: dict[str, np.ndarray] = {}
    for place, session in sessions:
        trace = session.trace
        for name in CHECKED_METHODS:
            scores = method_scores(name, session, find_target(trace, "response"), seed)
            ranks = rank(scores[trace.inputs])
            yield Point(panel, name, place, _correlation(ranks, first.setdefault(name, ranks)))
            if (found := _auc(trace, example, scores)) is not None:
                yield Point(f"{panel}, evidence", name, place, found)


def _correlation(ranks: np.ndarray, others: np.ndarray) -> float:
    """Zero if one ranking does not distinguish any inputs."""
    if not ranks.std() or not others.std():
        return 0.0
    return float(np.corrcoef(ranks, others)[0, 1])


def _auc(trace: Trace, example: Example, scores: np.ndarray) -> float | None:
    """How well the evidence is told from what could be mistaken for it; None if either is unknown."""
    kind: EvidenceKind = "image" if trace.patches else "question"
    evidence, others = getattr(evidence_positions(trace), kind), getattr(other_positions(trace, example), kind)
    return localisation(scores, trace.positions(kind), evidence, others).get("auc_others")


SANITY_STUDY = SanityStudy()
