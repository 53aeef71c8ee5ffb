"""Plots of points: a panel per quantity, a line or a dot per series, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ..faithfulness.statistics import Summary
from .figures import PAGE, LineLabel, label_lines, new_figure, set_labels
from .method_colours import colours_of

_CROWDED = 26  # more characters, with two between names, do not fit below the axes side by side
_LETTER = 0.045  # width of a digit, as a fraction of the axes' width
_SLANTED: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}


@dataclass(frozen=True)
class PlotPanel:
    """Axes of a plot."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    scatter: bool = False  # one dot per series, at the mean of its points
    from_zero: bool = False  # the y axis starts at zero, so that heights can be compared
    ticks: Mapping[float, str] | None = None


class MeanPoint(NamedTuple):
    """A place on the x axis, and the heights there over all examples."""

    x: float
    y: Summary


SeriesMeans = Mapping[tuple[str, str], Sequence[MeanPoint]]  # by panel and series


def draw_panels(panels: Mapping[str, PlotPanel], means: SeriesMeans) -> Figure:
    """All panels, two in a row; every series has its name beside its end."""
    colours = colours_of(label for _, label in means)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(rows, columns, 2.7 * rows, PAGE if columns > 1 else 0.75 * PAGE)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, (title, panel) in zip(axes.flat, panels.items(), strict=False):
        set_labels(ax, title[:1].upper() + title[1:], panel.x, panel.y)
        if panel.log_x:
            ax.set_xscale("log")
        if panel.log_y:
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
        series = {label: means.get((title, label), []) for label in colours}
        for label, points in series.items():
            _draw_series(ax, panel, colours[label], points)
        if panel.from_zero:
            ax.set_ylim(0, 1.05 * ax.dataLim.y1)
        if panel.scatter:
            ax.margins(0.1)
        else:
            _set_ticks(ax, panel, sorted({point.x for points in series.values() for point in points}))
        ends = {label: points[-1] for label, points in series.items() if points}
        names = [
            LineLabel(end.y.mean, label, colours[label], end.x if panel.scatter else None)
            for label, end in ends.items()
        ]
        label_lines(ax, names)
    return figure


def _draw_series(ax: Axes, panel: PlotPanel, colour: str, points: Sequence[MeanPoint]) -> None:
    x, size = [point.x for point in points], 6 if panel.scatter else 3.5
    ax.plot(x, [point.y.mean for point in points], "-", marker="o", ms=size, color=colour)
    ax.fill_between(x, [p.y.low for p in points], [p.y.high for p in points], color=colour, alpha=0.08)


def _set_ticks(ax: Axes, panel: PlotPanel, places: Sequence[float]) -> None:
    if panel.ticks:
        slanted = len("  ".join(panel.ticks.values())) > _CROWDED
        ax.set_xticks(list(panel.ticks), list(panel.ticks.values()), **(_SLANTED if slanted else {}))
    else:
        names = {x: f"{x:g}" if x >= 1 or not x else f"{x:.2f}" for x in places}
        shown = _apart(ax, names)
        ax.set_xticks(places, [names[x] if x in shown else "" for x in places])
    ax.minorticks_off()


def _apart(ax: Axes, names: Mapping[float, str]) -> set[float]:
    """The places, from left to right and with the last one, whose numbers do not run into each other."""
    at = {x: float(ax.transAxes.inverted().transform(ax.transData.transform((x, ax.get_ylim()[0])))[0]) for x in names}
    places = sorted(names)
    kept = places[-1:]
    for x in places[:-1]:
        near = kept[0], kept[-1]  # the last place, and the neighbour on the left
        if all(abs(at[x] - at[other]) > _LETTER * (1 + (len(names[x]) + len(names[other])) / 2) for other in near):
            kept.append(x)
    return set(kept)
