"""Studies that measure points of a plot on every example: the tables show their means over examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..faithfulness.plan import item_seed
from ..faithfulness.statistics import Summary, summarise
from ..methods.session import TraceSession
from .point_plots import MeanPoint, PlotPanel, SeriesMeans, draw_panels
from .study import Findings, Study, StudyReport, StudySetup


class Point(NamedTuple):
    """One measured value of one example."""

    panel: str
    series: str
    x: float
    y: float


@dataclass(frozen=True)
class PointStudy(Study[list[Point]]):
    """A function from a trace to points, and the panels they belong to."""

    name: str
    about: str
    panels: Mapping[str, PlotPanel]
    points: Callable[[TraceSession, float, int], list[Point]]  # with the radius of the blur, and a seed
    limit: int = 50

    def measure(self, setup: StudySetup, number: int, before: list[Point] | None) -> list[Point]:
        return self.points(
            TraceSession.open(setup.lvlm, setup.freeze(number)), setup.blur, item_seed(setup.seed, number)
        )

    def decode(self, value: Any) -> list[Point]:
        return [Point(*point) for point in value]

    def report(self, findings: Findings[list[Point]]) -> StudyReport:
        return points_report(self.panels, findings)


def points_report(panels: Mapping[str, PlotPanel], findings: Findings[list[Point]]) -> StudyReport:
    """Means over examples, as tables and a plot."""
    measured = list(findings.found.values())
    means = mean_points(panels, measured)
    text = _tables(panels, means, measured) + f"\n{_facts(findings)}"
    return StudyReport(text, draw_panels(panels, means))


def mean_points(panels: Mapping[str, PlotPanel], items: Sequence[Sequence[Point]]) -> SeriesMeans:
    """Means over examples, by panel and series. All points of a series in a scatter panel become one."""
    collected: dict[tuple[str, str], dict[float, list[Point]]] = {}
    for point in (point for points in items for point in points):
        place = 0.0 if panels[point.panel].scatter else point.x
        collected.setdefault((point.panel, point.series), {}).setdefault(place, []).append(point)
    return {key: [_mean(points) for _, points in sorted(places.items())] for key, places in collected.items()}


def _mean(points: Sequence[Point]) -> MeanPoint:
    heights = np.array([point.y for point in points])
    summary: Summary = summarise({"": heights}, None, True, draws=2000)[""]
    return MeanPoint(float(np.mean([point.x for point in points])), summary)


def _facts(findings: Findings[list[Point]]) -> str:
    setup, left_out = findings.setup, Counter(findings.left_out.values())
    count = len(findings.found)
    lines = [f"{setup.lvlm.label} on {setup.benchmark.name}, {_examples(count)}, seed {setup.seed}.\n"]
    lines += [f"Left out, {n} of {count + left_out.total()}: {reason}.\n" for reason, n in left_out.items()]
    return "".join(lines)


def _tables(panels: Mapping[str, PlotPanel], means: SeriesMeans, items: Sequence[Sequence[Point]]) -> str:
    """One table per panel: series by x. Not every example has points in every panel."""
    counts = Counter(panel for points in items for panel in {point.panel for point in points})
    text = ""
    for title, panel in panels.items():
        head = f"{title}, {_examples(counts[title])}"
        series = {label: points for (where, label), points in means.items() if where == title}
        text += _scatter_table(head, panel, series) if panel.scatter else _line_table(head, panel, series)
    return text


def _scatter_table(head: str, panel: PlotPanel, series: Mapping[str, Sequence[MeanPoint]]) -> str:
    text = f"| {head} | {panel.x} | {panel.y} |\n| --- | --- | --- |\n"
    return text + "".join(f"| {name} | {p[0].x:.3f} | {p[0].y.mean:.3f} |\n" for name, p in series.items()) + "\n"


def _line_table(head: str, panel: PlotPanel, series: Mapping[str, Sequence[MeanPoint]]) -> str:
    places = sorted({point.x for points in series.values() for point in points})
    heads = [(panel.ticks or {}).get(x, f"{x:.4g}") for x in places]
    what = f"{panel.y} by {panel.x}" if panel.x else panel.y
    text = f"| {head}: {what} | {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 1)}\n"
    for name, points in series.items():
        values = {point.x: _number(point.y.mean) for point in points}
        text += f"| {name} | {' | '.join(values.get(x, '') for x in places)} |\n"
    return text + "\n"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def _examples(count: int) -> str:
    return "1 example" if count == 1 else f"{count} examples"
