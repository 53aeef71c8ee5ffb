"""How strong the blur has to be: the same rankings, measured under weaker and stronger blur."""

from __future__ import annotations

from ..faithfulness.likelihoods import ResponseLikelihoods
from ..methods.session import TraceSession
from ..tracing.targets import find_target
from .catalogue import STUDY_SUBJECTS
from .method_scores import COMPARED_METHODS, method_scores
from .point_plots import PlotPanel
from .point_study import Point, PointStudy

RADII = (0.02, 0.04, 1 / 12, 1 / 6, 1 / 4)


def blur_points(session: TraceSession, blur: float, seed: int) -> list[Point]:
    """RISE of the same rankings at every radius, and the likelihood of the response with all patches blurred."""
    trace = session.trace
    target, image = find_target(trace, "response"), frozenset(trace.positions("image"))
    names = [name for name in COMPARED_METHODS if name != "attnlrp"]  # the slowest one, and not studied here
    scores = [method_scores(name, session, target, seed) for name in names]
    likelihood_points, rise_points, degenerate = [], [], False
    for radius in RADII:
        likelihoods = ResponseLikelihoods(session, radius)
        likelihood_points.append(Point("likelihood", "all patches blurred", radius, likelihoods.measure([image])[0]))
        for name, curves in zip(names, likelihoods.curves(scores, ("image",)), strict=True):
            rise_points += [Point(kind.mode, name, radius, curve.rise) for kind, curve in curves.items()]
            degenerate |= any(curve.degenerate for curve in curves.values())
    return likelihood_points + ([] if degenerate else rise_points)  # the same examples at every radius


_RADIUS = "radius, share of the longer side"
BLUR_STUDY = PointStudy(
    "blur",
    STUDY_SUBJECTS["blur"],
    {
        "insertion": PlotPanel(_RADIUS, "RISE insertion, image", log_x=True),
        "deletion": PlotPanel(_RADIUS, "RISE deletion, image", log_x=True),
        "likelihood": PlotPanel(_RADIUS, "likelihood with the picture blurred", log_x=True),
    },
    blur_points,
    limit=24,
)
