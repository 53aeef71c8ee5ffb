"""Plots of variants: bars, lines over a parameter, or mean perturbation curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..faithfulness.rows import CurveRow
from ..faithfulness.store import Run
from ..faithfulness.tables import CurveSetting, Line, Subset, Table
from ..system.text_colours import FAINT, INK
from .figures import LABEL, TICK, LineLabel, label_lines, new_figure, set_labels
from .method_colours import colours_of

_DIRECTIONS = {"RISE ins": "insertion", "RISE del": "deletion"}
_HEADINGS = {"RISE ins": "Insertion: higher is better", "RISE del": "Deletion: lower is better"}


class VariantPlot(Protocol):
    """Draws the table of a study."""

    def draw(self, run: Run, table: Table) -> Figure: ...


class _Panel(NamedTuple):
    """Axes for one target, subset, setting and direction: insertion on the left, deletion on the right."""

    ax: Axes
    target: str
    subset: Subset
    setting: CurveSetting
    metric: str


def _panels(table: Table, height: float, x: Mapping[str, str], y: str = "") -> tuple[Figure, list[_Panel]]:
    """A row for each target, subset and setting, named on its left; columns are named once, above and below."""
    shown = dict.fromkeys((line.target, line.subset) for line in table.lines)
    rows = [(target, subset, setting) for target, subset in shown for setting in table.settings]
    figure, axes = new_figure(len(rows), 2, height * len(rows) + 0.6)
    panels = []
    for row, (target, subset, setting) in enumerate(rows):
        answers = "" if subset == "all" else f", {subset} answers"
        for ax, metric in zip(axes[row], _DIRECTIONS, strict=True):
            first, last = metric == next(iter(_DIRECTIONS)), row == len(rows) - 1
            name = f"{setting.capitalize()} setting, {target}{answers}" if first else ""
            set_labels(ax, name, x[metric] if last else "", y if first else "")
            panels.append(_Panel(ax, target, subset, setting, metric))
            if not row:
                place = {"xy": (0, 1), "xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, 24)}
                ax.annotate(_HEADINGS[metric], fontsize=LABEL, color=INK, weight="bold", **place)
    return figure, panels


class Bars:
    """Insertion and deletion on axes of their own, with intervals, each method in its colour."""

    def draw(self, run: Run, table: Table) -> Figure:
        area = dict.fromkeys(_DIRECTIONS, "area under the curve")
        figure, panels = _panels(table, 0.55 + 0.21 * len(table.methods), area)
        colours = colours_of(table.methods)
        for panel in panels:
            if line := table.find(panel.target, panel.setting, panel.metric, panel.subset):
                _draw_bars(panel.ax, line, colours)
            if panel.metric != next(iter(_DIRECTIONS)):
                panel.ax.tick_params(labelleft=False)  # as on the left
        return figure


def _draw_bars(ax: Axes, line: Line, colours: Mapping[str, str]) -> None:
    names = list(colours)
    cells = [line.cells[name] for name in names]
    ax.barh(
        range(len(names)),
        [cell.mean for cell in cells],
        0.7,
        xerr=[[cell.mean - cell.low for cell in cells], [cell.high - cell.mean for cell in cells]],
        color=list(colours.values()),
        error_kw={"lw": 0.8, "ecolor": INK},
    )
    for place, cell in enumerate(cells):
        ax.text(cell.high + 0.02, place, f"{cell.mean:.3f}", fontsize=TICK, color=FAINT, va="center")
    ax.set_yticks(range(len(names)), names, fontsize=TICK, color=INK)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.3)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.spines["bottom"].set_bounds(0, 1)


class PlacedVariant(NamedTuple):
    """Where a variant lies on the x axis of a line plot."""

    x: float
    variant: str


@dataclass(frozen=True)
class ParameterLines:
    """Insertion and deletion over a parameter, one line per series."""

    parameter: str
    series: Mapping[str, Sequence[PlacedVariant]]
    ticks: Mapping[float, str] | None = None

    def draw(self, run: Run, table: Table) -> Figure:
        figure, panels = _panels(table, 1.75, dict.fromkeys(_DIRECTIONS, self.parameter), "area")
        colours = colours_of(self.series)
        for panel in panels:
            panel.ax.set_ylim(0, 1)
            panel.ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
            if self.ticks:
                panel.ax.set_xticks(list(self.ticks), list(self.ticks.values()))
            if line := table.find(panel.target, panel.setting, panel.metric, panel.subset):
                drawn = [self._draw_line(panel.ax, colour, label, line) for label, colour in colours.items()]
                label_lines(panel.ax, [label for label in drawn if label])
        return figure

    def _draw_line(self, ax: Axes, colour: str, label: str, line: Line) -> LineLabel | None:
        points = [(place.x, line.cells[place.variant]) for place in self.series[label] if place.variant in line.cells]
        cells, x = [cell for _, cell in points], [x for x, _ in points]
        ax.plot(x, [cell.mean for cell in cells], "-", marker="o", ms=3.5, color=colour)
        ax.fill_between(x, [cell.low for cell in cells], [cell.high for cell in cells], color=colour, alpha=0.12)
        return LineLabel(cells[-1].mean, label, colour) if cells else None


class MeanCurves:
    """Mean normalised likelihood as inputs are restored (insertion) or removed (deletion), over items that all variants
    have. Items with degenerate curves are left out. Names are at the mean heights of their curves: all curves end in
    the same point."""

    def draw(self, run: Run, table: Table) -> Figure:
        x = {"RISE ins": "inputs restored, %", "RISE del": "inputs removed, %"}
        figure, panels = _panels(table, 1.9, x, "likelihood, normalised")
        colours = colours_of(table.methods)
        for panel in panels:
            mode = _DIRECTIONS[panel.metric]
            curves = _comparable_curves(run, panel.target, panel.setting, table.methods)
            panel.ax.set_ylim(-0.02, 1.02)
            panel.ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
            labels = []
            for name, colour in colours.items():
                own = [row for row in curves if (row["method"], row["mode"]) == (name, mode)]
                if len(mean := _mean_curve(own)):
                    panel.ax.plot(100 * np.linspace(0, 1, len(mean)), mean, "-", lw=1.6, color=colour)
                    labels.append(LineLabel(float(mean.mean()), name, colour))
            label_lines(panel.ax, labels)
        return figure


def _comparable_curves(run: Run, target: str, setting: CurveSetting, methods: Sequence[str]) -> list[CurveRow]:
    own = [row for row in run.rows.curve if (row["target"], row["setting"]) == (target, setting)]
    items = set.intersection(*({row["item"] for row in own if row["method"] == name} for name in methods))
    items -= {row["item"] for row in own if row["degenerate"]}
    return [row for row in own if row["item"] in items]


def _mean_curve(rows: Sequence[CurveRow]) -> np.ndarray:
    """Empty if there are no rows. Short curves, with few inputs, are stretched."""
    values = [np.array(json.loads(row["response"])) for row in rows]
    grid = np.linspace(0, 1, max((len(value) for value in values), default=0))
    return np.mean([np.interp(grid, np.linspace(0, 1, len(v)), v) for v in values], axis=0) if values else grid
