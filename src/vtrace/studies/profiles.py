"""Studies that are not a table of methods: what is measured on one frozen trace, as points of a plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attribution.multihop import log_outflow, log_sums_up_to
from ..attribution.options import Options
from ..attribution.pipeline import log_scores_of, receiver_columns
from ..faithfulness.curves import ranked
from ..faithfulness.likelihoods import Measure, Setting
from ..lvlm.model import Lvlm
from ..methods.registry import run_method
from ..methods.session import TraceSession
from ..system.peak_memory import PeakMemory
from ..tracing.generate import Reply, retrace
from ..tracing.targets import find_target
from ..types import Example, Target, Trace

BUDGETS = (1, 2, 5, 10, 20, 30, 50)  # per cent of image and question tokens
RADII = (0.02, 0.04, 1 / 12, 1 / 6, 1 / 4)
HOPS = (1, 2, 4, 8)
ALL_PATHS = 16  # where plots have them on an axis of hops
DISTANCES = (1, 5, 20, 50, 100)  # tokens; the last bin holds what is farther away
LENGTHS = (256, 512, 1024, 2048)
COMPARED = ("vtrace", "vtrace-ordered", "ifr", "flashtrace", "flowtracer", "attnlrp", "rollout", "random")
TIMED = ("vtrace", "vtrace-ordered", "ifr", "flashtrace", "flowtracer", "rollout", "attnlrp", "chefer")
MATTERS = 0.01  # an answer whose probability falls by less without all inputs is copied from the frozen reasoning
Point = tuple[str, str, float, float]  # panel, series, x, y


@dataclass(frozen=True)
class Panel:
    """Axes of a plot."""

    x: str
    y: str
    log: tuple[bool, bool] = (False, False)
    scatter: bool = False  # one dot per series, at the mean of its points
    from_zero: bool = False  # heights can be compared
    ticks: dict[float, str] | None = None


@dataclass(frozen=True)
class Profile:
    """A function from a trace to points, and the panels they belong to."""

    about: str
    panels: dict[str, Panel]
    measure: Callable[[Lvlm, Trace, float, int], list[Point]]  # with the radius of the blur, and a seed
    limit: int = 50


def budget(lvlm: Lvlm, trace: Trace, blur: float, seed: int) -> list[Point]:
    """Among the strongest k % of image and question tokens: how many are of the image, and how much of the answer's
    probability comes back when only they are shown, where it needs the inputs at all."""
    target, inputs = find_target(trace, "answer"), trace.positions("image", "question")
    image, answer = set(trace.positions("image")), [p - trace.prompt_length for p in target.positions]
    session = TraceSession.open(lvlm, trace)
    perturbation = session.perturbation(blur)
    orders = {name: ranked(_scores(name, session, target, seed), inputs) for name in COMPARED}
    shown = {(name, k): orders[name][: max(1, round(k / 100 * len(inputs)))] for name in COMPARED for k in BUDGETS}
    states = [inputs, [], *(set(inputs).difference(kept) for kept in shown.values())]
    chances = perturbation.log_probabilities(states)[:, answer].mean(1).exp().tolist()
    nothing, everything = chances[:2]
    points: list[Point] = []
    for (name, k), chance in zip(shown, chances[2:], strict=True):
        points.append(("image tokens", name, k, 100 * float(np.mean([p in image for p in shown[name, k]]))))
        if everything - nothing > MATTERS:
            recovered = (chance - nothing) / (everything - nothing)
            points.append(("recovery", name, k, float(np.clip(recovered, 0, 1))))
    return points


def credit(lvlm: Lvlm, trace: Trace, blur: float, seed: int) -> list[Point]:
    """Operators from the direct edge (W) to all paths (R): how far away a generated token's credit comes from, the
    image's part of the answer's credit, and how faithful the ranking of patches, and of question words, is."""
    session = TraceSession.open(lvlm, trace)
    measure = Measure(session, blur)
    pairwise, answer = session.pairwise(True), find_target(trace, "answer")
    image = trace.positions("image")
    places = (*HOPS, ALL_PATHS)
    own = [_received(pairwise, [answer], hops)[:, 0] for hops in (*HOPS, 0)]
    for received in own:
        received[min(answer.receivers()) :] = 0  # as for IFR: a target relies on what came before it is read
    ifr = np.clip(_scores("ifr", session, answer, seed), 0, None)
    settings: tuple[Setting, ...] = ("image", "question")
    curves = measure.curves([*own, ifr], settings)
    points: list[Point] = []
    for name, operators in (("VTrace", range(len(places))), ("IFR", [len(own)] * len(places))):
        for place, k in zip(places, operators, strict=True):
            scores = ifr if name == "IFR" else own[k]
            points.append(("image credit", name, place, float(scores[image].sum() / (scores.sum() or 1.0))))
            for (setting, mode), curve in curves[k].items():
                if not curve.degenerate:
                    points.append((mode, f"{name}, {setting}", place, curve.rise))
    generated = range(trace.prompt_length + 1, len(trace))
    few = generated[:: max(1, len(generated) // 12)]  # IFR needs sums of its own for every one of them
    tokens = [Target("token", (p,)) for p in few]
    credits = {
        "one hop (W)": list(_received(pairwise, tokens, 1).T),
        "all paths (R)": list(_received(pairwise, tokens, 0).T),
        "IFR": [_scores("ifr", session, token, seed) for token in tokens],
    }
    for name, found in credits.items():
        far = [_by_distance(scores, token.receivers()[0]) for scores, token in zip(found, tokens, strict=True)]
        points += [("distance", name, bin, float(np.mean(part))) for bin, part in enumerate(zip(*far, strict=True))]
    return points


def blur(lvlm: Lvlm, trace: Trace, blur: float, seed: int) -> list[Point]:
    """The same rankings under weaker and stronger blur, and how likely the response still is without a picture."""
    session, target = TraceSession.open(lvlm, trace), find_target(trace, "response")
    names = [name for name in COMPARED if name != "attnlrp"]  # whose pass is the slowest, and not what is studied
    found = [_scores(name, session, target, seed) for name in names]
    left: list[Point] = []
    areas: list[tuple[Point, bool]] = []  # and whether its curve is degenerate
    for radius in RADII:
        measure = Measure(session, radius)
        likelihood = measure.likelihoods([frozenset(trace.positions("image"))])[0]
        left.append(("likelihood", "all patches blurred", radius, likelihood))
        for name, curves in zip(names, measure.curves(found, ("image",)), strict=True):
            areas += [((mode, name, radius, curve.rise), curve.degenerate) for (_, mode), curve in curves.items()]
    if any(degenerate for _, degenerate in areas):  # the same examples at every radius
        return left
    return left + [point for point, _ in areas]


def efficiency(lvlm: Lvlm, trace: Trace, blur: float, seed: int) -> list[Point]:
    """Time and memory by sequence length (the response repeated until it is long enough), time against RISE, and time
    for one target against every generated token as its own."""
    points: list[Point] = []
    target = find_target(trace, "response")
    measure = Measure(TraceSession.open(lvlm, trace), blur)
    every = [Target("token", (p,)) for p in range(trace.prompt_length, len(trace))]
    for place, targets in enumerate(([target], every)):
        points.append(("targets", "vtrace", place, _seconds(lambda t=targets: _explained(lvlm, trace, t))))  # type: ignore[misc]
    for name in TIMED:
        seconds, _, found = _timed(lvlm, trace, name, target)
        curve = measure.curves([found.scores], ("image",))[0]["image", "insertion"]
        if not curve.degenerate:
            points.append(("faithfulness", name, seconds, curve.rise))
    for length in LENGTHS:
        long = _lengthened(lvlm, trace, length)
        if long is None:
            continue
        last = Target("end", tuple(range(len(long) - 5, len(long))))
        for name in TIMED:
            seconds, memory, _ = _timed(lvlm, long, name, last)
            points.append(("seconds", name, length, seconds))
            if memory is not None:
                points.append(("memory", name, length, memory / 2**20))
    return points


def _timed(lvlm: Lvlm, trace: Trace, name: str, target: Target) -> tuple[float, int | None, Any]:
    """Seconds, peak memory and result of one method with nothing shared, once everything is warm.

    Memory and time are those of different runs: giving memory back, to measure the next peak, takes time.
    """
    meter = PeakMemory(lvlm.device)
    with meter.measure():
        found = run_method(name, TraceSession.open(lvlm, trace), target)
    return _seconds(lambda: run_method(name, TraceSession.open(lvlm, trace), target)), meter.peak, found


def _seconds(run: Callable[[], object]) -> float:
    """The median of three."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return sorted(spent)[1]


def _explained(lvlm: Lvlm, trace: Trace, targets: Sequence[Target]) -> Tensor:
    """VTrace for all of these targets, from the model on."""
    session = TraceSession.open(lvlm, trace)
    session.padded_likelihoods()  # calibration is part of the price
    return log_scores_of(session.pairwise(), targets, Options())


def _lengthened(lvlm: Lvlm, trace: Trace, length: int) -> Trace | None:
    """The trace with its response repeated to a length, if the context allows."""
    reply = trace.ids[trace.prompt_length :]
    wanted = length - trace.prompt_length
    if wanted < len(reply) or length > lvlm.context:
        return None
    repeated = (list(reply[:-1]) * (wanted // max(1, len(reply) - 1) + 1))[:wanted]
    return retrace(lvlm, Example(trace.images, trace.question), Reply(repeated, "supplied"), trace.system)


def _scores(name: str, session: TraceSession, target: Target, seed: int) -> np.ndarray:
    options: dict[str, Any] = {"seed": seed} if name == "random" else {}
    return run_method(name, session, target, **options).scores


def _received(pairwise: Tensor, targets: Sequence[Target], hops: int) -> np.ndarray:
    """T,k: what each target receives over paths of at most so many edges (0: over all), as shares of its total."""
    receivers = receiver_columns(len(pairwise), targets).to(pairwise.device)
    logs = log_sums_up_to(pairwise, receivers, hops) if hops else log_outflow(pairwise, receivers)
    return logs.softmax(dim=0).nan_to_num(0.0).cpu().numpy()  # nan: nothing is received


def _by_distance(scores: np.ndarray, position: int) -> list[float]:
    """Shares of credit by how far before a receiver it lies: 1, 2 to 5, … tokens."""
    credit = np.clip(scores[:position], 0, None)
    distance = position - np.arange(position)
    bins = np.searchsorted(DISTANCES, distance)
    return [float(credit[bins == b].sum() / (credit.sum() or 1.0)) for b in range(len(DISTANCES) + 1)]


def _bins(edges: Sequence[int]) -> dict[float, str]:
    starts = [1, *(edge + 1 for edge in edges)]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, edges, strict=False)]
    return dict(enumerate([*names, f"> {edges[-1]}"]))


_HOP_TICKS = {**{float(h): str(h) for h in HOPS}, float(ALL_PATHS): "all"}
PROFILES: dict[str, Profile] = {
    "budget": Profile(
        "what the strongest few tokens are, and how much of the answer they bring back",
        {
            "image tokens": Panel("strongest tokens, %", "of them image tokens, %", (True, False)),
            "recovery": Panel("strongest tokens shown, %", "recovered probability of the answer", (True, False)),
        },
        budget,
    ),
    "credit": Profile(
        "from the direct edge to all paths: distance of credit's sources, the image's part, RISE by operator",
        {
            "distance": Panel("tokens back", "share of a token's credit", ticks=_bins(DISTANCES)),
            "image credit": Panel(
                "hops summed", "image's part of the answer's credit", (True, False), ticks=_HOP_TICKS
            ),
            "insertion": Panel("hops summed", "RISE insertion", (True, False), ticks=_HOP_TICKS),
            "deletion": Panel("hops summed", "RISE deletion", (True, False), ticks=_HOP_TICKS),
        },
        credit,
    ),
    "blur": Profile(
        "how strong the blur has to be",
        {
            "insertion": Panel("radius, share of the longer side", "RISE insertion, image"),
            "deletion": Panel("radius, share of the longer side", "RISE deletion, image"),
            "likelihood": Panel("radius, share of the longer side", "likelihood without a picture"),
        },
        blur,
        limit=24,
    ),
    "efficiency": Profile(
        "time and memory by length, time against faithfulness, one target against all",
        {
            "seconds": Panel("tokens", "seconds", (True, True)),
            "memory": Panel("tokens", "peak memory above the model's, MB", (True, False), from_zero=True),
            "faithfulness": Panel("seconds", "RISE insertion, image", scatter=True),
            "targets": Panel("", "seconds", ticks={0.0: "one span", 1.0: "every generated token"}, from_zero=True),
        },
        efficiency,
        limit=2,
    ),
}  # fmt: skip
