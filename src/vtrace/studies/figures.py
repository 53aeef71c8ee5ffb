"""What the plots of all studies share: their size, axes, direct labels and the title.

Plots are as wide as the text of a page. In a column of a paper, 3.4 inches wide, their letters have 5 to 6 points.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..system.files import write_atomically
from ..system.text_colours import FAINT, INK

PAGE = 6.4  # inches
TITLE, LABEL, TICK = 11.0, 10.0, 9.0  # points
_UPRIGHT = 26  # characters of a line along the y axis
_LINE = 1.4 * TICK / 72  # inches between two labels; the axes become a little lower when they are laid out


class FigureAndAxes(NamedTuple):
    """A figure, and its axes, rows by columns."""

    figure: Figure
    axes: np.ndarray


class LineLabel(NamedTuple):
    """A name beside the axes, at the height of what it names, in its colour."""

    y: float
    text: str
    colour: str
    x: float | None = None  # of a dot, to which a thin line leads


def new_figure(rows: int, columns: int, height: float, width: float = PAGE) -> FigureAndAxes:
    """An empty figure in the style of all plots, with room for a title."""
    figure = Figure(figsize=(width, height + 0.45), layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.06, rect=(0, 0, 1, 1 - 0.4 / figure.get_figheight()))
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=TICK, colors=FAINT)
        ax.locator_params(axis="y", nbins=5)
    return FigureAndAxes(figure, axes)


def set_labels(ax: Axes, title: str, x: str = "", y: str = "") -> None:
    ax.set_title(title, fontsize=LABEL, color=INK, loc="left")
    ax.set_xlabel(x, fontsize=TICK, color=FAINT)
    ax.set_ylabel("\n".join(textwrap.wrap(y, _UPRIGHT)), fontsize=TICK, color=FAINT)


def label_lines(ax: Axes, labels: Sequence[LineLabel]) -> None:
    """Write names beside the axes instead of a legend. Names that would overlap are moved apart, in the same order."""
    low, high = ax.get_ylim()
    scale = ax.transAxes.inverted()
    places = []
    for label in labels:
        _, y = scale.transform(ax.transData.transform((ax.get_xlim()[0], label.y)))
        places.append((float(y), label))
    # Of dots at about the same height, the one on the left has the lowest name: lines to them hardly cross.
    places.sort(key=lambda place: (round(place[0], 1), place[1].x or 0, place[0]))
    inches = ax.get_window_extent().height / ax.figure.dpi
    apart = min(_LINE / inches, 0.96 / max(1, len(places) - 1))  # closer if they would not fit otherwise
    heights = spread(sorted(y for y, _ in places), apart)
    for (_, label), height in zip(places, heights, strict=True):
        at = (1.02, height)
        ax.text(*at, label.text, transform=ax.transAxes, fontsize=TICK, color=label.colour, va="center", ha="left")
        if label.x is not None:
            line = {"arrowstyle": "-", "lw": 0.6, "color": label.colour, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (label.x, label.y), (1.01, height), textcoords="axes fraction", arrowprops=line)
    ax.set_ylim(low, high)


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Sorted heights, moved as little as needed to be this far apart, and between 0 and 1 if they fit."""
    found = list(heights)
    for _ in range(100):
        moved = False
        for k in range(1, len(found)):
            if (gap := apart - (found[k] - found[k - 1])) > 1e-9:
                found[k - 1], found[k], moved = found[k - 1] - gap / 2, found[k] + gap / 2, True
        if not moved:
            break
    for k in reversed(range(len(found))):  # none above the axes, where the title is
        found[k] = min(found[k], 0.96 if k == len(found) - 1 else found[k + 1] - apart)
    for k in range(len(found)):  # nor below them, where the ticks are, as long as there is room
        found[k] = max(found[k], 0.0 if k == 0 else found[k - 1] + apart)
    return found


def add_title(figure: Figure, title: str, note: str = "") -> None:
    """What the figure shows, above its axes, in as many lines as it needs; below it, a note on how it was measured."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(title, int(12 * width))
    figure.text(0.01, 1 - 0.1 / height, "\n".join(lines), ha="left", va="top", fontsize=TITLE, color=INK)
    below = 0.14 + 0.2 * len(lines)  # inches
    figure.text(0.01, 1 - below / height, note, ha="left", va="top", fontsize=TICK, color=FAINT)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - (below + 0.06 + 0.18 * bool(note)) / height))


def save_figure(figure: Figure, path: Path) -> Path:
    """Write PNG, PDF or SVG, as the file's ending says. Text in a PDF stays text."""
    with rc_context({"pdf.fonttype": 42, "svg.hashsalt": "vtrace"}):
        return write_atomically(path, lambda file: figure.savefig(file, dpi=150, facecolor="white"))
