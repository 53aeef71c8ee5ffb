"""One figure: the picture, its patches, and the question and response with shaded words, on one scale."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...attribution.result import Attribution, RankedInput
from ...system.text_colours import FAINT, INK
from ..scale import Scale
from ..shaded_figure import (
    LINE,
    MARGIN,
    Sheet,
    draw_picture,
    draw_ramp,
    fill_colour,
    layout,
    panel_size,
    ruler,
    write_lines,
    write_png,
)
from ..wording import calibration_sentence, percent, quoted_label

WIDTH, GAP = 12.0, 0.35  # inches
ROW, ROWS_IN_FIGURE = 0.25, 8  # height of a line of the ranking, and how many there are


def draw_attribution(attribution: Attribution, path: Path) -> None:
    """Write the figure as PNG."""
    write_png(attribution_figure(attribution), path, dpi=150)


def attribution_figure(attribution: Attribution) -> Figure:
    """Pictures on the left, text on the right; as tall as its contents need."""
    trace = attribution.trace
    scale = Scale(attribution)
    panels = trace.panels
    picture = min([4.6, *(6.0 * image.width / image.height for image in trace.images)])
    sizes = [panel_size(trace, panel, picture) for panel in panels]
    left = MARGIN + (picture + GAP if panels else 0)
    beside = WIDTH - left - MARGIN
    lines = layout(attribution, beside, ruler())
    items = attribution.top(ROWS_IN_FIGURE)
    seen = sum(size.height + GAP for size in sizes) + 0.4
    sheet = Sheet.of_size(WIDTH, max(seen, LINE * len(lines) + 1.75 + ROW * len(items)) + 2 * MARGIN)
    top = MARGIN
    for panel, size in zip(panels, sizes, strict=True):
        draw_picture(sheet.axes_at(MARGIN, top, *size), attribution, panel, scale)
        top += size.height + GAP
    ends = ("0%", "share of all inputs", f"{percent(scale.full)} or more")
    draw_ramp(sheet, MARGIN, top, picture if panels else 4.0, ends)
    bottom = write_lines(sheet.canvas, lines, left, MARGIN, scale)
    _balance(sheet.canvas, attribution, left, bottom + 0.25, beside)
    _ranking(sheet.canvas, items, left, bottom + 1.15, beside)
    return sheet.figure


def _balance(canvas: Axes, attribution: Attribution, left: float, top: float, width: float) -> None:
    image = attribution.image_share
    canvas.add_patch(Rectangle((left, top), width * image, 0.16, fc=fill_colour(0.8), ec="none"))
    canvas.add_patch(Rectangle((left + width * image, top), width * (1 - image), 0.16, fc=fill_colour(0.3), ec="none"))
    canvas.text(left, top - 0.13, f"image {percent(image)}", fontsize=9, color=INK, va="center")
    question = f"question {percent(attribution.text_share)}"
    canvas.text(left + width, top - 0.13, question, fontsize=9, color=INK, ha="right", va="center")
    canvas.text(left, top + 0.33, calibration_sentence(attribution), fontsize=8, color=FAINT, va="center")
    about = f"{attribution.method} · target: {attribution.target.name} (underlined) · model: {attribution.trace.model}"
    canvas.text(left, top + 0.55, about, fontsize=8, color=FAINT, va="center", parse_math=False)


def _ranking(canvas: Axes, items: list[RankedInput], left: float, top: float, width: float) -> None:
    """The strongest patches and words in one list."""
    canvas.text(left, top, "STRONGEST INPUTS", fontsize=8, color=FAINT, va="center", fontweight="bold")
    full = items[0].score if items and items[0].score else 1.0
    for rank, item in enumerate(items, start=1):
        y = top + 0.08 + ROW * rank
        canvas.text(left, y, quoted_label(item), fontsize=9, color=INK, va="center_baseline", parse_math=False)
        canvas.text(left + 2.75, y, percent(item.score), fontsize=9, color=INK, va="center_baseline", ha="right")
        level = item.score / full
        fill = fill_colour(0.25 + 0.6 * level)
        canvas.add_patch(Rectangle((left + 2.9, y - 0.07), (width - 2.9) * level, 0.13, fc=fill, ec="none"))
