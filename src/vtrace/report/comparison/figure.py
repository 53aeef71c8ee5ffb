"""Small multiples: each method's patches and question words, and how well the methods agree."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...methods.comparison import Comparison
from ...system.fonts import drawn_in
from ...system.text_colours import FAINT, INK
from ...types import Panel
from ...viewer.palette import ink
from ..scale import Scale
from ..shaded_figure import (
    LINE,
    MARGIN,
    NOTE_LINE,
    TEXT_SIZE,
    PanelSize,
    PlacedWord,
    Sheet,
    draw_picture,
    fill_colour,
    layout,
    note_lines,
    panel_size,
    wrap,
    write_figure,
    write_lines,
    write_notes,
)
from ..wording import answer_heading, correlation_level, correlation_text, percent, seconds_text, short_label

CARD, CARD_GAP, HEAD = 3.0, 0.4, 0.75  # inches
COLUMNS, POINTS, NOTE = 4, 8.5, 8.5
SQUARE = 0.34  # inches of one correlation


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """Write the figure as PNG, PDF or SVG."""
    write_figure(comparison_figure(comparison), path, dpi=130)


def comparison_figure(comparison: Comparison) -> Figure:
    """A card for every method, and the matrix of correlations below."""
    trace = comparison.trace
    with drawn_in([trace.question, trace.answer_text or "", trace.model, *comparison.results]) as fonts:
        return _figure(comparison, [*comparison.warnings, *filter(None, [fonts.note])])


def _figure(comparison: Comparison, notes: list[str]) -> Figure:
    trace, results = comparison.trace, comparison.results
    columns = min(COLUMNS, max(2, len(results)))
    rows = math.ceil(len(results) / columns)
    sizes = {panel: panel_size(trace, panel, CARD) for panel in trace.panels}
    lines = {name: layout(result, CARD, POINTS, ("question",))[1:-1] for name, result in results.items()}
    words = max(LINE * POINTS / TEXT_SIZE * len(x) for x in lines.values())
    card = 0.45 + sum(size.height + 0.12 for size in sizes.values()) + words + 0.5
    width = columns * CARD + (columns - 1) * CARD_GAP
    said = note_lines(notes, width, NOTE)
    about = wrap(_about(comparison), width, POINTS)
    head = HEAD + NOTE_LINE * (len(about) - 1 + len(said))
    below = MARGIN + head + rows * (card + CARD_GAP)
    matrix = SQUARE * len(results) + 1.0 if len(results) > 1 else 0
    sheet = Sheet.of_size(width + 2 * MARGIN, below + matrix + MARGIN)
    _heading(sheet.canvas, comparison, about)
    write_notes(sheet.canvas, said, MARGIN, MARGIN + 0.37 + NOTE_LINE * len(about), NOTE)
    for number, name in enumerate(results):
        left = MARGIN + number % columns * (CARD + CARD_GAP)
        top = MARGIN + head + number // columns * (card + CARD_GAP)
        _card(sheet, comparison, name, sizes, lines[name], left, top)
    if matrix:
        _agreement(sheet.canvas, comparison, MARGIN, below + 0.2)
    return sheet.figure


def _about(comparison: Comparison) -> str:
    kind, target = comparison.compared, comparison.target.name
    asked = "" if kind == "model" else f" · model: {comparison.trace.model_label}"
    return (
        f"What {len(comparison.results)} {kind}s say it relies on · target: {target}{asked} · each {kind} on its own "
        "scale, from 0 to its strongest patch or word"
    )


def _heading(canvas: Axes, comparison: Comparison, about: list[str]) -> None:
    title = answer_heading(comparison.trace)
    canvas.text(MARGIN, MARGIN, title, fontsize=14, color=INK, fontweight="bold", va="center", parse_math=False)
    for number, line in enumerate(about):
        y = MARGIN + 0.3 + NOTE_LINE * number
        canvas.text(MARGIN, y, line, fontsize=POINTS, color=FAINT, va="center", parse_math=False)


def _card(
    sheet: Sheet,
    comparison: Comparison,
    name: str,
    sizes: dict[Panel, PanelSize],
    lines: list[list[PlacedWord]],
    left: float,
    top: float,
) -> None:
    result, canvas = comparison.results[name], sheet.canvas
    scale = Scale(result)
    canvas.text(left, top, name, fontsize=11.5, color=INK, fontweight="bold", va="center")
    about = f"image {percent(result.image_share)} · {seconds_text(comparison.costs[name].seconds)}"
    canvas.text(left + CARD, top, about, fontsize=8, color=FAINT, ha="right", va="center")
    y = top + 0.2
    for panel, size in sizes.items():
        draw_picture(sheet.axes_at(left, y, *size), result, panel, scale)
        y += size.height + 0.12
    y = write_lines(canvas, lines, left, y + 0.03, scale, POINTS)
    strongest = "   ".join(f"{short_label(item)} {percent(item.score)}" for item in result.top(3))
    canvas.text(left, y + 0.02, strongest, fontsize=7.5, color=FAINT, va="center", parse_math=False)


def _agreement(canvas: Axes, comparison: Comparison, left: float, top: float) -> None:
    """Rank correlations as shaded cells; columns have the numbers of the rows."""
    label = 1.75
    title = "Rank correlation over patches and question words"
    canvas.text(left, top, title, fontsize=8, color=FAINT, va="center", fontweight="bold")
    for row, (name, values) in enumerate(zip(comparison.results, comparison.agreement, strict=True)):
        y = top + 0.45 + SQUARE * row
        canvas.text(left, y + SQUARE / 2, f"{row + 1}  {name}", fontsize=8.5, color=INK, va="center")
        canvas.text(left + label + SQUARE * (row + 0.5), top + 0.3, str(row + 1), fontsize=8, color=FAINT, ha="center")
        for column, value in enumerate(values):
            level = correlation_level(value)
            x = left + label + SQUARE * column
            canvas.add_patch(Rectangle((x, y), SQUARE - 0.02, SQUARE - 0.02, fc=fill_colour(level), ec="none"))
            middle = (x + SQUARE / 2 - 0.01, y + SQUARE / 2)
            canvas.text(*middle, correlation_text(value), fontsize=7, color=ink(level), ha="center", va="center")
