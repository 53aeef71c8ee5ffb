"""What the plots of all studies share: colours, axes, the legend and the title."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..system.files import write_atomically
from ..system.text_colours import FAINT, INK

SERIES_COLOURS = ("#4c125c", "#de5762", "#fba052", "#2a7f9e", "#6b9e3f", "#9a7fb8", "#8a6d3b", "#b0a8b6")


def series_colour(number: int) -> str:
    return SERIES_COLOURS[number % len(SERIES_COLOURS)]


class FigureAndAxes(NamedTuple):
    """A figure, and its axes, rows by columns."""

    figure: Figure
    axes: np.ndarray


def new_figure(rows: int, columns: int, width: float, height: float) -> FigureAndAxes:
    """An empty figure in the style of all plots."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.08, h_pad=0.08)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8, colors=FAINT)
    return FigureAndAxes(figure, axes)


def set_labels(ax: Axes, title: str, x: str = "", y: str = "") -> None:
    ax.set_title(title, fontsize=9, color=INK, loc="left")
    ax.set_xlabel(x, fontsize=8, color=FAINT)
    ax.set_ylabel(y, fontsize=8, color=FAINT)


def add_legend(figure: Figure, axes: np.ndarray, order: Sequence[str] = ()) -> Figure:
    """One legend for all panels, below the title."""
    known = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = list(order or known)
    rows = -(-len(labels) // 4)
    figure.legend(
        [known[label] for label in labels],
        labels,
        loc="upper left",
        bbox_to_anchor=(0.015, 1 - 0.42 / figure.get_figheight()),
        fontsize=8,
        frameon=False,
        ncols=4,
        labelcolor=FAINT,
    )
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - (0.5 + 0.24 * rows) / figure.get_figheight()))
    return figure


def add_title(figure: Figure, title: str) -> None:
    top = 1 - 0.1 / figure.get_figheight()
    figure.text(0.02, top, title, ha="left", va="top", fontsize=12, color=INK)


def save_figure(figure: Figure, path: Path) -> Path:
    return write_atomically(path, lambda file: figure.savefig(file, dpi=130, facecolor="white"))
