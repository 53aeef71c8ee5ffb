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
from ..faithfulness.tables import CURVE_SETTINGS, CurveSetting, Line, Subset, Table
from ..system.text_colours import FAINT, INK
from .figures import add_legend, new_figure, series_colour, set_labels

_DIRECTIONS = {"RISE ins": "insertion", "RISE del": "deletion"}
HINTS = {"RISE ins": "insertion, higher is better", "RISE del": "deletion, lower is better"}


class VariantPlot(Protocol):
    """Draws the table of a study."""

    def draw(self, run: Run, table: Table) -> Figure: ...


class Bars:
    """Insertion and deletion side by side, with intervals; one panel per target, subset and setting."""

    def draw(self, run: Run, table: Table) -> Figure:
        panels = list(dict.fromkeys((line.target, line.subset) for line in table.lines))
        height = 1.2 + len(panels) * (0.9 + 0.36 * len(table.methods))
        figure, axes = new_figure(len(panels), 2, 11, height)
        for row, (target, subset) in enumerate(panels):
            for ax, setting in zip(axes[row], CURVE_SETTINGS, strict=True):
                set_labels(ax, _title(target, setting, subset))
                for number, metric in enumerate(_DIRECTIONS):
                    if line := table.find(target, setting, metric, subset):
                        _draw_bars(ax, number, line, table.methods)
                ax.set_yticks(np.arange(len(table.methods)) + 0.19, table.methods, fontsize=8, color=INK)
                ax.invert_yaxis()
                ax.set_xlim(0, 1.1)
                ax.set_xticks(np.linspace(0, 1, 6))
        return add_legend(figure, axes)


def _draw_bars(ax: Axes, number: int, line: Line, names: Sequence[str]) -> None:
    places = np.arange(len(names)) + 0.38 * number
    cells = [line.cells[name] for name in names]
    ax.barh(
        places,
        [cell.mean for cell in cells],
        0.36,
        xerr=[[cell.mean - cell.low for cell in cells], [cell.high - cell.mean for cell in cells]],
        color=series_colour(number),
        label=HINTS[line.metric],
        error_kw={"lw": 0.8, "ecolor": FAINT},
    )
    for place, cell in zip(places, cells, strict=True):
        ax.text(cell.high + 0.01, place, f"{cell.mean:.3f}", fontsize=7, color=FAINT, va="center")


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
        targets = _targets(table)
        figure, axes = new_figure(len(targets), 2, 10, 1 + 2.9 * len(targets))
        for row, target in enumerate(targets):
            for ax, setting in zip(axes[row], CURVE_SETTINGS, strict=True):
                set_labels(ax, _title(target, setting), self.parameter)
                for number, label in enumerate(self.series):
                    for metric, style in zip(_DIRECTIONS, ("-", "--"), strict=True):
                        if line := table.find(target, setting, metric):
                            self._draw_line(ax, number, label, line, style)
                ax.set_ylim(0, 1)
                if self.ticks:
                    ax.set_xticks(list(self.ticks), list(self.ticks.values()))
        return add_legend(figure, axes)

    def _draw_line(self, ax: Axes, number: int, label: str, line: Line, style: str) -> None:
        points = [(place.x, line.cells[place.variant]) for place in self.series[label] if place.variant in line.cells]
        cells, x, colour = [cell for _, cell in points], [x for x, _ in points], series_colour(number)
        ax.plot(
            x,
            [c.mean for c in cells],
            style,
            marker="o",
            ms=3.5,
            color=colour,
            label=f"{label}, {_DIRECTIONS[line.metric]}",
        )
        ax.fill_between(
            x, [cell.low for _, cell in points], [cell.high for _, cell in points], color=colour, alpha=0.12
        )


class MeanCurves:
    """Mean normalised likelihood as inputs are restored (solid) or removed (dashed), over items that all variants have.
    Items with degenerate curves are left out."""

    x = "inputs restored (—) or removed (- -), %"
    y = "likelihood of the response, normalised"

    def draw(self, run: Run, table: Table) -> Figure:
        targets = _targets(table)
        figure, axes = new_figure(len(targets), 2, 10, 1 + 3.1 * len(targets))
        for row, target in enumerate(targets):
            for ax, setting in zip(axes[row], CURVE_SETTINGS, strict=True):
                set_labels(ax, _title(target, setting), self.x, self.y)
                curves = _comparable_curves(run, target, setting, table.methods)
                for number, name in enumerate(table.methods):
                    for mode, style in (("insertion", "-"), ("deletion", "--")):
                        own = [row for row in curves if (row["method"], row["mode"]) == (name, mode)]
                        if len(mean := _mean_curve(own)):
                            label = name if mode == "insertion" else None
                            x = 100 * np.linspace(0, 1, len(mean))
                            ax.plot(x, mean, style, lw=1.6, color=series_colour(number), label=label)
        return add_legend(figure, axes)


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


def _targets(table: Table) -> list[str]:
    return list(dict.fromkeys(line.target for line in table.lines))


def _title(target: str, setting: CurveSetting, subset: Subset = "all") -> str:
    return f"{setting.capitalize()} setting, target: {target}" + ("" if subset == "all" else f", {subset} answers only")
