"""Plots of studies, from the rows of a run: bars, lines over a parameter, or mean curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..faithfulness.statistics import Summary
from ..faithfulness.store import Run
from ..faithfulness.tables import Line, Table
from ..system.files import write_atomically
from .profiles import Profile
from .study import Study

INK, FAINT = "#1f1a24", "#746c7b"
COLOURS = ("#4c125c", "#de5762", "#fba052", "#2a7f9e", "#6b9e3f", "#9a7fb8", "#8a6d3b", "#b0a8b6")
METRICS = ("RISE ins", "RISE del")
SETTINGS = ("image", "joint")


def draw(name: str, study: Study, run: Run, table: Table, folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg; where they are."""
    plot = {"bars": _bars, "lines": _lines, "curves": _curves}[study.plot]
    return _save(name, study.about, plot(study, run, table), folder)


def draw_profile(name: str, profile: Profile, means: dict[tuple[str, str], list[tuple[float, Summary]]], folder: Path):
    """The same for a profile, from means by panel and series."""
    series = list(dict.fromkeys(label for _, label in means))
    figure, axes = _figure(1, len(profile.panels), 1 + 4.4 * len(profile.panels), 4.2)
    for ax, (title, panel) in zip(axes[0], profile.panels.items(), strict=True):
        ax.set_title(title, fontsize=9, color=INK, loc="left")
        ax.set_xlabel(panel.x, fontsize=8, color=FAINT)
        ax.set_ylabel(panel.y, fontsize=8, color=FAINT)
        for scale, log in zip((ax.set_xscale, ax.set_yscale), panel.log, strict=True):
            if log:
                scale("log")
        places: set[float] = set()
        for number, label in enumerate(series):
            points = means.get((title, label), [])
            colour, x = COLOURS[number % len(COLOURS)], [x for x, _ in points]
            places.update(x)
            size = 6 if panel.scatter else 3.5
            ax.plot(x, [s.mean for _, s in points], "-", marker="o", ms=size, color=colour, label=label)
            ax.fill_between(x, [s.low for _, s in points], [s.high for _, s in points], color=colour, alpha=0.12)
        if panel.scatter:
            _name_dots(ax, [(*means[title, label][0], label) for label in series if (title, label) in means])
        if panel.from_zero:
            ax.set_ylim(bottom=0)
        ticks = panel.ticks or {x: f"{x:g}" if x >= 1 else f"{x:.2f}" for x in sorted(places)}
        if not panel.scatter:
            ax.set_xticks(list(ticks), list(ticks.values()))
            ax.minorticks_off()
    return _save(name, profile.about, _with_legend(figure, axes, series), folder)


def _name_dots(ax: Any, dots: list[tuple[float, Summary, str]]) -> None:
    """Names beside dots, as colour alone would not tell; above and below in turn, as two may stand at one place."""
    for number, (x, height, label) in enumerate(sorted(dots, key=lambda dot: dot[0])):
        up = number % 2 == 0
        ax.annotate(
            label, (x, height.mean), (3, 5 if up else -5), textcoords="offset points", fontsize=7, color=INK,
            rotation=40 if up else -40, rotation_mode="anchor", va="bottom" if up else "top",
        )  # fmt: skip
    ax.margins(x=0.15, y=0.35)


def _save(name: str, about: str, figure: Figure, folder: Path) -> list[Path]:
    top = 1 - 0.1 / figure.get_figheight()
    figure.text(0.02, top, f"{name}: {about}", ha="left", va="top", fontsize=12, color=INK)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        write_atomically(path, lambda file: figure.savefig(file, dpi=130, facecolor="white"))
    return paths


def _figure(rows: int, columns: int, width: float, height: float):
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.08, h_pad=0.08)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8, colors=FAINT)
    return figure, axes


def _with_legend(figure: Figure, axes: Any, order: Sequence[str] = ()) -> Figure:
    """One legend for all panels, in the heading."""
    known = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = list(order or known)
    handles = [known[label] for label in labels]
    rows = -(-len(labels) // 4)
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0.015, 1 - 0.42 / figure.get_figheight()), fontsize=8,
        frameon=False, ncols=4, labelcolor=FAINT,
    )  # fmt: skip
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - (0.5 + 0.24 * rows) / figure.get_figheight()))
    return figure


def _title(ax, target: str, setting: str, subset: str = "all") -> None:
    more = "" if subset == "all" else f", {subset} answers"
    ax.set_title(f"{setting} · target: {target}{more}", fontsize=9, color=INK, loc="left")


def _line(table: Table, target: str, subset: str, setting: str, metric: str) -> Line | None:
    wanted = (target, subset, setting, metric)
    return next((x for x in table.lines if (x.target, x.subset, x.setting, x.metric) == wanted), None)


def _bars(study: Study, run: Run, table: Table) -> Figure:
    """Insertion and deletion beside each other, with intervals; one panel per target, subset and setting."""
    measured = {(line.target, line.subset) for line in table.lines}  # a model may never be wrong on a few examples
    panels = [(t, s) for t in study.targets for s in study.subsets if (t, s) in measured]
    names = table.methods
    figure, axes = _figure(len(panels), 2, 11, 1.2 + len(panels) * (0.9 + 0.36 * len(names)))
    for row, (target, subset) in enumerate(panels):
        for column, setting in enumerate(SETTINGS):
            ax = axes[row, column]
            _title(ax, target, setting, subset)
            for number, metric in enumerate(METRICS):
                line = _line(table, target, subset, setting, metric)
                if line is None:
                    continue
                y = np.arange(len(names)) + 0.38 * number
                cells = [line.cells[name] for name in names]
                spread = [[c.mean - c.low for c in cells], [c.high - c.mean for c in cells]]
                label = "insertion, higher is better" if metric == "RISE ins" else "deletion, lower is better"
                ax.barh(y, [c.mean for c in cells], 0.36, xerr=spread, color=COLOURS[number], label=label,
                        error_kw={"lw": 0.8, "ecolor": FAINT})  # fmt: skip
                for place, c in zip(y, cells, strict=True):
                    ax.text(c.high + 0.01, place, f"{c.mean:.3f}", fontsize=7, color=FAINT, va="center")
            ax.set_yticks(np.arange(len(names)) + 0.19, names, fontsize=8, color=INK)
            ax.invert_yaxis()
            ax.set_xlim(0, 1.1)
            ax.set_xticks(np.linspace(0, 1, 6))
    return _with_legend(figure, axes)


def _lines(study: Study, run: Run, table: Table) -> Figure:
    figure, axes = _figure(len(study.targets), 2, 10, 1 + 2.9 * len(study.targets))
    for row, target in enumerate(study.targets):
        for column, setting in enumerate(SETTINGS):
            ax = axes[row, column]
            _title(ax, target, setting)
            for number, (label, points) in enumerate(study.series.items()):
                for metric, style in zip(METRICS, ("-", "--"), strict=True):
                    line = _line(table, target, "all", setting, metric)
                    if line is None:
                        continue
                    x = [p for p, name in points if name in line.cells]
                    cells = [line.cells[name] for _, name in points if name in line.cells]
                    ax.plot(x, [c.mean for c in cells], style, marker="o", ms=3.5, color=COLOURS[number],
                            label=f"{label}, {'insertion' if style == '-' else 'deletion'}")  # fmt: skip
                    ax.fill_between(
                        x, [c.low for c in cells], [c.high for c in cells], color=COLOURS[number], alpha=0.12
                    )
            ax.set_xlabel(study.axis, fontsize=8, color=FAINT)
            ax.set_ylim(0, 1)
            if study.ticks:
                ax.set_xticks(list(study.ticks), list(study.ticks.values()))
    return _with_legend(figure, axes)


def _curves(study: Study, run: Run, table: Table) -> Figure:
    """Mean normalised likelihood as inputs are restored (solid) or removed (dashed), over items that all have; those
    whose curves are degenerate have nothing to draw."""
    figure, axes = _figure(len(study.targets), 2, 10, 1 + 3.1 * len(study.targets))
    for row, target in enumerate(study.targets):
        for column, setting in enumerate(SETTINGS):
            ax = axes[row, column]
            _title(ax, target, setting)
            own = [r for r in run.rows["curve"] if (r["target"], r["setting"]) == (target, setting)]
            items = set.intersection(*({r["item"] for r in own if r["method"] == name} for name in table.methods))
            items -= {r["item"] for r in own if r["degenerate"]}
            for number, name in enumerate(table.methods):
                for mode, style in (("insertion", "-"), ("deletion", "--")):
                    rows = [r for r in own if (r["method"], r["mode"]) == (name, mode) and r["item"] in items]
                    values = [np.array(json.loads(r["response"])) for r in rows]
                    steps = max((len(v) for v in values), default=0)
                    if not steps:
                        continue
                    grid = np.linspace(0, 1, steps)  # short curves, of few inputs, are stretched
                    mean = np.mean([np.interp(grid, np.linspace(0, 1, len(v)), v) for v in values], axis=0)
                    label = name if mode == "insertion" else None
                    ax.plot(100 * grid, mean, style, lw=1.6, color=COLOURS[number % len(COLOURS)], label=label)
            ax.set_xlabel("inputs restored (—) or removed (- -), %", fontsize=8, color=FAINT)
            ax.set_ylabel("likelihood of the response, normalised", fontsize=8, color=FAINT)
    return _with_legend(figure, axes)
