"""Small multiples: each method's patches and question words, and how far the methods agree."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..methods.comparison import Comparison
from ..viewer.palette import colour, ink
from .comparison import correlation, seconds, short
from .png import FAINT, INK, LINE, SIZE, layout, panel_size, picture_axes, ruler, sheet, write
from .scale import Scale, percent

CELL, GAP, MARGIN = 3.0, 0.4, 0.45  # inches
COLUMNS, POINTS = 4, 8.5


def draw(comparison: Comparison, path: Path) -> None:
    """Write the figure as PNG."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        build(comparison).savefig(path, format="png", dpi=130, facecolor="white")


def build(comparison: Comparison) -> Figure:
    trace, results = comparison.trace, comparison.results
    columns = min(COLUMNS, max(2, len(results)))
    sizes = {panel: panel_size(trace, panel, CELL) for panel in trace.panels}
    pictures = sum(high + 0.12 for _, high in sizes.values())
    measure = ruler(POINTS)
    lines = {name: layout(result, CELL, measure, ("question",))[1:-1] for name, result in results.items()}
    words = max(LINE * POINTS / SIZE * len(x) for x in lines.values())
    cell = 0.45 + pictures + words + 0.5
    rows = math.ceil(len(results) / columns)
    side = 0.34 * len(results)
    width = columns * CELL + (columns - 1) * GAP + 2 * MARGIN
    height = MARGIN + 0.75 + rows * (cell + GAP) + (side + 1.0 if len(results) > 1 else 0) + MARGIN
    figure, canvas = sheet(width, height)
    _heading(canvas, comparison, width)
    for number, (name, result) in enumerate(results.items()):
        left = MARGIN + number % columns * (CELL + GAP)
        top = MARGIN + 0.75 + number // columns * (cell + GAP)
        scale = Scale(result)
        canvas.text(left, top, name, fontsize=11.5, color=INK, fontweight="bold", va="center")
        about = f"image {percent(result.image_share)} · {seconds(comparison.costs[name].seconds)}"
        canvas.text(left + CELL, top, about, fontsize=8, color=FAINT, ha="right", va="center")
        y = top + 0.2
        for panel, (wide, high) in sizes.items():
            axes = figure.add_axes((left / width, 1 - (y + high) / height, wide / width, high / height))
            picture_axes(axes, result, panel, scale)
            y += high + 0.12
        y = write(canvas, lines[name], left, y + 0.03, scale, POINTS)
        strongest = "   ".join(f"{short(item)} {percent(item.score)}" for item in result.top(3))
        canvas.text(left, y + 0.02, strongest, fontsize=7.5, color=FAINT, va="center", parse_math=False)
    if len(results) > 1:
        _matrix(canvas, comparison, MARGIN, MARGIN + 0.75 + rows * (cell + GAP) + 0.2)
    return figure


def _heading(canvas, comparison: Comparison, width: float) -> None:
    answer = comparison.trace.answer_text
    title = f"Answer: {answer}" if answer else "No final answer"
    canvas.text(MARGIN, MARGIN, title, fontsize=14, color=INK, fontweight="bold", va="center", parse_math=False)
    about = (
        f"What {len(comparison.results)} methods say it relies on · target: {comparison.target.name} · model: "
        f"{comparison.trace.model} · each method on its own scale, from 0 to its strongest piece of evidence"
    )
    canvas.text(MARGIN, MARGIN + 0.3, about, fontsize=8.5, color=FAINT, va="center", parse_math=False)


def _matrix(canvas, comparison: Comparison, left: float, top: float) -> None:
    """Rank correlations as shaded cells, the column named by the row's number."""
    names, cell, label = list(comparison.results), 0.34, 1.75
    title = "RANK CORRELATION OVER PATCHES AND QUESTION WORDS"
    canvas.text(left, top, title, fontsize=8, color=FAINT, va="center", fontweight="bold")
    for row, (name, values) in enumerate(zip(names, comparison.agreement, strict=True)):
        y = top + 0.45 + cell * row
        canvas.text(left, y + cell / 2, f"{row + 1}  {name}", fontsize=8.5, color=INK, va="center")
        canvas.text(left + label + cell * (row + 0.5), top + 0.3, str(row + 1), fontsize=8, color=FAINT, ha="center")
        for column, value in enumerate(values):
            level = 0.0 if math.isnan(value) else 0.8 * max(0.0, value)
            x = left + label + cell * column
            fill = np.array(colour(level)) / 255
            canvas.add_patch(Rectangle((x, y), cell - 0.02, cell - 0.02, fc=fill, ec="none"))
            canvas.text(
                x + cell / 2 - 0.01, y + cell / 2, correlation(value), fontsize=7, color=ink(level), ha="center",
                va="center",
            )  # fmt: skip
