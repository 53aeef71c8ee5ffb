"""From the direct edge to all paths: where credit comes from, and which operator ranks inputs faithfully."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..attribution.multihop import log_outflow, log_sums_up_to
from ..attribution.pipeline import receiver_columns
from ..attribution.triangle import Triangle
from ..faithfulness.likelihoods import ResponseLikelihoods
from ..methods.session import TraceSession
from ..tracing.targets import find_target
from ..types import Target
from .catalogue import STUDY_SUBJECTS
from .hops import HOP_COUNTS
from .method_scores import method_scores
from .point_plots import PlotPanel
from .point_study import Point, PointStudy

ALL_PATHS = 16  # place on the axis of hops
DISTANCES = (1, 5, 20, 50, 100)  # tokens; the last bin holds what is farther away
TOKENS = 12  # approximate number of generated tokens to follow: IFR needs separate sums for each


def credit_points(session: TraceSession, blur: float, seed: int) -> list[Point]:
    """How far away a generated token's credit comes from, the image's share of the answer's credit, and how faithful
    the ranking of patches, and of question words, is, for operators from the direct edge (W) to all paths (R)."""
    return [*_answer_points(session, blur, seed), *_distance_points(session, seed)]


def _answer_points(session: TraceSession, blur: float, seed: int) -> Iterator[Point]:
    pairwise, answer = session.pairwise(True), find_target(session.trace, "answer")
    image = session.trace.positions("image")
    own = [_received(pairwise, [answer], hops)[:, 0] for hops in (*HOP_COUNTS, 0)]
    for received in own:
        received[min(answer.receivers()) :] = 0  # as for IFR: only positions before the receiver count
    ifr = np.clip(method_scores("ifr", session, answer, seed), 0, None)
    curves = ResponseLikelihoods(session, blur).curves([*own, ifr], ("image", "question"))
    places = (*HOP_COUNTS, ALL_PATHS)
    for name, scores_by_place, curves_by_place in (
        ("VTrace", own, curves[:-1]),
        ("IFR", [ifr] * len(places), [curves[-1]] * len(places)),  # it has no hops: a horizontal line
    ):
        for place, scores, found in zip(places, scores_by_place, curves_by_place, strict=True):
            yield Point("image credit", name, place, float(scores[image].sum() / (scores.sum() or 1.0)))
            for kind, curve in found.items():
                if not curve.degenerate:
                    yield Point(kind.mode, f"{name}, {kind.setting}", place, curve.rise)


def _distance_points(session: TraceSession, seed: int) -> Iterator[Point]:
    trace, pairwise = session.trace, session.pairwise(True)
    generated = range(trace.prompt_length + 1, len(trace))
    tokens = [Target("token", (p,)) for p in generated[:: max(1, len(generated) // TOKENS)]]
    credits = {
        "one hop (W)": list(_received(pairwise, tokens, 1).T),
        "all paths (R)": list(_received(pairwise, tokens, 0).T),
        "IFR": [method_scores("ifr", session, token, seed) for token in tokens],
    }
    for name, found in credits.items():
        shares = [credit_by_distance(scores, token.receivers()[0]) for scores, token in zip(found, tokens, strict=True)]
        for bin, parts in enumerate(zip(*shares, strict=True)):
            yield Point("distance", name, bin, float(np.mean(parts)))


def _received(pairwise: Triangle, targets: Sequence[Target], hops: int) -> np.ndarray:
    """T,k: what each target receives over paths of at most `hops` edges (0: over all), as shares of its total."""
    receivers = receiver_columns(len(pairwise), targets).to(pairwise.device)
    logs = log_sums_up_to(pairwise, receivers, hops) if hops else log_outflow(pairwise, receivers)
    return logs.softmax(dim=0).nan_to_num(0.0).cpu().numpy()  # nan: nothing is received


def credit_by_distance(scores: np.ndarray, position: int) -> list[float]:
    """Shares of credit by how far before a receiver it lies: 1, 2 to 5, … tokens."""
    credit = np.clip(scores[:position], 0, None)
    distance = position - np.arange(position)
    bins = np.searchsorted(DISTANCES, distance)
    return [float(credit[bins == b].sum() / (credit.sum() or 1.0)) for b in range(len(DISTANCES) + 1)]


def _distance_ticks() -> dict[float, str]:
    starts = [1, *(edge + 1 for edge in DISTANCES)]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, DISTANCES, strict=False)]
    return dict(enumerate([*names, f"> {DISTANCES[-1]}"]))


_HOP_TICKS = {**{float(hops): str(hops) for hops in HOP_COUNTS}, float(ALL_PATHS): "all"}
CREDIT_STUDY = PointStudy(
    "credit",
    STUDY_SUBJECTS["credit"],
    {
        "distance": PlotPanel("tokens back", "share of a token's credit", ticks=_distance_ticks()),
        "image credit": PlotPanel("hops summed", "image's share of the answer's credit", log_x=True, ticks=_HOP_TICKS),
        "insertion": PlotPanel("hops summed", "RISE insertion", log_x=True, ticks=_HOP_TICKS),
        "deletion": PlotPanel("hops summed", "RISE deletion", log_x=True, ticks=_HOP_TICKS),
    },
    credit_points,
)
