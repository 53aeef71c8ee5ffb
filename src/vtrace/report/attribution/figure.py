"""One figure: the picture, its patches, and the question and response with shaded words, on one scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...attribution.result import Attribution, RankedInput
from ...system.fonts import drawn_in
from ...system.text_colours import FAINT, INK
from ..scale import Scale
from ..shaded_figure import (
    LINE,
    MARGIN,
    NOTE_LINE,
    TEXT_SIZE,
    Sheet,
    draw_picture,
    draw_ramp,
    fill_colour,
    layout,
    note_lines,
    panel_size,
    wrap,
    write_figure,
    write_lines,
    write_notes,
)
from ..wording import calibration_sentence, percent, quoted_label


@dataclass(frozen=True)
class FigureForm:
    """Where a figure is looked at. Sizes are in inches and points."""

    width: float
    margin: float
    picture: float  # widest
    tallest: float  # height of a picture
    words: float  # size of question and response
    labels: float  # size of everything else
    stacked: bool  # text below the pictures, not beside them
    rows: int  # of the ranking
    gap: float

    @property
    def row(self) -> float:
        """Height of a line of the ranking."""
        return 0.027 * self.labels

    @property
    def line(self) -> float:
        """Height of a line of words."""
        return LINE * self.words / TEXT_SIZE


SCREEN = FigureForm(12.0, MARGIN, 4.6, 6.0, TEXT_SIZE, 9.0, stacked=False, rows=8, gap=0.35)
COLUMN = FigureForm(3.5, 0.06, 3.0, 3.0, 8.5, 7.0, stacked=True, rows=5, gap=0.2)  # of a paper with two columns


def draw_attribution(attribution: Attribution, path: Path) -> None:
    """Write the figure: as PNG for a screen, as PDF or SVG for a column of a paper."""
    form = COLUMN if path.suffix.lower() in (".pdf", ".svg") else SCREEN
    write_figure(attribution_figure(attribution, form), path, dpi=150)


def attribution_figure(attribution: Attribution, form: FigureForm = SCREEN) -> Figure:
    """Pictures, text beside or below them; as tall as its contents need."""
    trace = attribution.trace
    with drawn_in([trace.question, trace.response, trace.model]) as fonts:
        scale, panels = Scale(attribution), trace.panels
        room = form.width - 2 * form.margin
        picture = min([form.picture, *(form.tallest * image.width / image.height for image in trace.images)])
        sizes = [panel_size(trace, panel, picture) for panel in panels]
        seen = sum(size.height + form.gap for size in sizes) + 0.45
        beside = bool(panels) and not form.stacked
        left = form.margin + (picture + form.gap if beside else 0)
        width = room - (left - form.margin)
        lines = layout(attribution, width, form.words)
        said = [note for note in attribution.warnings if not note.startswith("calibration")]  # that has its own line
        notes = note_lines([*said, *filter(None, [fonts.note])], width, form.labels)
        about = _about(attribution, width, form)
        items = attribution.top(form.rows)
        text = form.line * len(lines) + 0.75 + NOTE_LINE * (len(about) + len(notes)) + form.row * (len(items) + 1)
        sheet = Sheet.of_size(form.width, (max(seen, text) if beside else seen + text) + 2 * form.margin)
        top = form.margin
        for panel, size in zip(panels, sizes, strict=True):
            draw_picture(sheet.axes_at(form.margin, top, *size), attribution, panel, scale)
            top += size.height + form.gap
        ends = ("0%", "share of all inputs", f"{percent(scale.full)} or more")
        draw_ramp(sheet, form.margin, top, picture if panels else min(4.0, room), ends, form.labels - 1)
        start = form.margin if beside else top + 0.5
        bottom = write_lines(sheet.canvas, lines, left, start, scale, form.words)
        _balance(sheet.canvas, attribution, left, bottom + 0.2, width, form)
        bottom = _write(sheet.canvas, about, left, bottom + 0.52, form)
        write_notes(sheet.canvas, notes, left, bottom, form.labels)
        _ranking(sheet.canvas, items, left, bottom + NOTE_LINE * len(notes) + 0.12, width, form)
    return sheet.figure


def _about(attribution: Attribution, width: float, form: FigureForm) -> list[str]:
    shown = f"target: {attribution.target.name} (underlined) · model: {attribution.trace.model_label}"
    about = f"{attribution.method} · {shown}"
    return [line for text in (calibration_sentence(attribution), about) for line in wrap(text, width, form.labels - 1)]


def _write(canvas: Axes, lines: list[str], left: float, top: float, form: FigureForm) -> float:
    """Faint lines; returns where they end."""
    for number, line in enumerate(lines):
        y = top + NOTE_LINE * number
        canvas.text(left, y, line, fontsize=form.labels - 1, color=FAINT, va="center", parse_math=False)
    return top + NOTE_LINE * len(lines)


def _balance(canvas: Axes, attribution: Attribution, left: float, top: float, width: float, form: FigureForm) -> None:
    image = attribution.image_share
    canvas.add_patch(Rectangle((left, top), width * image, 0.16, fc=fill_colour(0.8), ec="none"))
    canvas.add_patch(Rectangle((left + width * image, top), width * (1 - image), 0.16, fc=fill_colour(0.3), ec="none"))
    canvas.text(left, top - 0.12, f"image {percent(image)}", fontsize=form.labels, color=INK, va="center")
    question = f"question {percent(attribution.text_share)}"
    canvas.text(left + width, top - 0.12, question, fontsize=form.labels, color=INK, ha="right", va="center")


def _ranking(canvas: Axes, items: list[RankedInput], left: float, top: float, width: float, form: FigureForm) -> None:
    """The strongest patches and words in one list."""
    canvas.text(left, top, "Strongest inputs", fontsize=form.labels - 1, color=FAINT, va="center", fontweight="bold")
    full = items[0].score if items and items[0].score else 1.0
    numbers = min(2.75, 0.56 * width)
    for rank, item in enumerate(items, start=1):
        y = top + 0.06 + form.row * rank
        words: dict[str, Any] = {"fontsize": form.labels, "color": INK, "va": "center_baseline", "parse_math": False}
        canvas.text(left, y, quoted_label(item), **words)
        canvas.text(left + numbers, y, percent(item.score), **words, ha="right")
        level = item.score / full
        fill, start = fill_colour(0.25 + 0.6 * level), numbers + 0.1
        bar = Rectangle((left + start, y - 0.07), (width - start) * level, 0.13, fc=fill, ec="none")
        canvas.add_patch(bar)
