"""Pictures with shaded patches and lines of shaded words, drawn with matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text

from ..attribution.result import Attribution
from ..system.fonts import fonts_for, pdf_font_type
from ..system.text_colours import FAINT, INK, WARNING
from ..tracing.spans import shown_words
from ..types import Box, Kind, Panel, Trace, Word
from ..viewer.palette import STOPS, colour, ink
from .scale import Scale
from .wording import panel_title, percent

MARGIN = 0.45  # inches around a figure
LINE, TEXT_SIZE = 0.315, 11.5  # line height in inches, and the matching text size in points
BLANK = 0.075  # inches between words
NOTE_LINE = 0.18  # line height of small text, in inches
TextRuler = Callable[[str], float]


class Sheet(NamedTuple):
    """An empty figure, and axes over all of it in inches from the top left corner."""

    figure: Figure
    canvas: Axes

    @classmethod
    def of_size(cls, width: float, height: float) -> Sheet:
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        canvas = figure.add_axes((0, 0, 1, 1))
        canvas.set_xlim(0, width)
        canvas.set_ylim(height, 0)
        canvas.axis("off")
        return cls(figure, canvas)

    def axes_at(self, left: float, top: float, width: float, height: float) -> Axes:
        """New axes at a position given in inches."""
        wide, high = self.figure.get_size_inches()
        return self.figure.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


class PanelSize(NamedTuple):
    """Size of a panel in inches."""

    width: float
    height: float


class PlacedWord(NamedTuple):
    """A word or a title, with its position in a line."""

    x: float  # inches from the left
    text: str
    width: float
    word: Word | None  # None for a title
    underlined: bool  # part of the target


def write_figure(figure: Figure, path: Path, dpi: int) -> None:
    """PDF or SVG, if the file ends so, else PNG. Text in a PDF stays text, which journals ask for, except in fonts that
    PDF cannot hold in this way."""
    ending = path.suffix.lower().removeprefix(".")
    families = fonts_for("".join(text.get_text() for text in figure.findobj(Text))).families
    with _any_script(), rc_context({"pdf.fonttype": pdf_font_type(families), "svg.hashsalt": "vtrace"}):
        metadata = {"Date": None} if ending == "svg" else {"CreationDate": None} if ending == "pdf" else None
        form = ending if ending in ("pdf", "svg") else "png"
        figure.savefig(path, format=form, dpi=dpi, facecolor="white", metadata=metadata)


def png_of(figure: Figure, dpi: int) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    with _any_script():
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()


@contextmanager
def _any_script() -> Iterator[None]:
    """Silence warnings about missing glyphs, which are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def fill_colour(strength: float) -> np.ndarray:
    """Red, green and blue from 0 to 1, as matplotlib takes them."""
    return np.array(colour(strength)) / 255


def panel_size(trace: Trace, panel: Panel, width: float) -> PanelSize:
    """Size of a panel; thumbnails are drawn smaller, as the model sees them."""
    wide = width * (0.45 if panel.view else 1.0)
    image = trace.images[panel.image]
    return PanelSize(wide, wide * image.height / image.width)


def draw_picture(axes: Axes, attribution: Attribution, panel: Panel, scale: Scale) -> None:
    """The picture in grey, each patch tinted by its strength; the strongest ones outlined, in their own colours."""
    trace = attribution.trace
    image = trace.images[panel.image]
    grey = np.asarray(image.convert("L").convert("RGB"), dtype=float) / 255
    shown = 0.35 + 0.65 * grey
    original = np.asarray(image, dtype=float) / 255
    patches = [p for p in trace.patches if (p.image, p.view) == panel]
    for patch in patches:
        left, top, right, bottom = (round(v) for v in patch.box)
        level = scale.strength(patch.position)
        weight = 0.12 + 0.42 * level
        base = 0.5 * original[top:bottom, left:right] + 0.5 * shown[top:bottom, left:right]
        shown[top:bottom, left:right] = (1 - weight) * base + weight * fill_colour(level)
    axes.imshow(shown, interpolation="bilinear")
    for patch in patches:
        if patch.position in scale.outlined:
            x, y, x_end, y_end = patch.box
            edge = fill_colour(max(0.45, scale.strength(patch.position)))
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), x_end - x, y_end - y, fill=False, lw=1.6, ec=edge))
    for region in attribution.regions:
        if region.box is not None and region.image == panel.image:
            name = "" if region.kind == "evidence" else region.name
            label = f"{name} {percent(region.share(attribution.scores))}".strip()
            _draw_region(axes, region.box, label, image.width)
    if title := panel_title(attribution, panel):
        axes.set_title(title, fontsize=8, color=FAINT, loc="left", pad=3)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_region(axes: Axes, box: Box, label: str, width: int) -> None:
    """A box, readable on any picture: dark on white. Its label is above it, or inside at the upper edge."""
    x, y = box.left - 0.5, box.top - 0.5
    for edge, line in (("white", 3.2), (INK, 1.4)):
        shape = Rectangle((x, y), box.right - box.left, box.bottom - box.top, fill=False, lw=line, ec=edge)
        axes.add_patch(shape)
    rightmost, topmost = box.left + box.right > width, box.top < 0.05 * width
    axes.annotate(
        label,
        (box.right if rightmost else x, y),
        (0, -4 if topmost else 4),
        textcoords="offset points",
        ha="right" if rightmost else "left",
        va="top" if topmost else "bottom",
        fontsize=7,
        color=INK,
        bbox={"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.2},
        parse_math=False,
    )


def layout(
    attribution: Attribution, width: float, points: float = TEXT_SIZE, kinds: Sequence[Kind] = ("question", "response")
) -> list[list[PlacedWord]]:
    """Lines for question and response, each under its title, with an empty line at the end."""
    trace, measure, blank = attribution.trace, ruler(points), BLANK * points / TEXT_SIZE
    targeted = set(attribution.target.positions)
    lines: list[list[PlacedWord]] = []
    for kind in kinds:
        lines += [[PlacedWord(0.0, kind.capitalize(), 0.0, None, False)], []]
        x = 0.0
        for word in shown_words(trace, kind):
            size = measure(word.text)
            x += 0 if x == 0 or _is_glued(trace, word) else blank
            if x > 0 and (x + size > width or _begins_line(trace, word)):
                lines.append([])
                x = 0.0
            underlined = bool(targeted & set(range(word.start, word.stop)))
            lines[-1].append(PlacedWord(x, word.text, size, word, underlined))
            x += size
        lines.append([])
    return lines


def _is_glued(trace: Trace, word: Word) -> bool:
    """Whether there is no blank in front of the word."""
    low, high = trace.offsets[word.start].start, trace.offsets[word.stop - 1].stop
    return not trace.text[low:high][:1].isspace() and not trace.text[low - 1 : low].isspace()


def _begins_line(trace: Trace, word: Word) -> bool:
    """After a line break of the response, or after a turn or a picture."""
    low = trace.offsets[word.start].start
    ended = word.kind == "response" and "\n" in trace.text[trace.offsets[word.start - 1].start : low + 1]
    return ended or trace.kinds[word.start - 1] != word.kind


def write_lines(
    canvas: Axes,
    lines: Sequence[Sequence[PlacedWord]],
    left: float,
    top: float,
    scale: Scale,
    points: float = TEXT_SIZE,
) -> float:
    """Draw lines of shaded words; returns where they end."""
    zoom = points / TEXT_SIZE
    y = top + 0.12
    for line in lines:
        for placed in line:
            if placed.word is None:
                canvas.text(left, y, placed.text, fontsize=8 * zoom**0.5, color=FAINT, va="center", fontweight="bold")
            else:
                level = scale.strength(placed.word.start, placed.word.stop)
                write_word(canvas, placed, left + placed.x, y, level, points)
        y += LINE * zoom
    return y


def write_word(
    canvas: Axes,
    placed: PlacedWord,
    x: float,
    y: float,
    level: float | None,
    points: float = TEXT_SIZE,
    faintest: float = 0.02,
) -> None:
    """A word on the colour of its strength, if that is more than the faintest; without a strength, in grey."""
    zoom = points / TEXT_SIZE
    if level is not None and level > faintest:
        box = FancyBboxPatch(
            (x - 0.02, y - 0.115 * zoom),
            placed.width + 0.04,
            0.23 * zoom,
            boxstyle="round,pad=0,rounding_size=0.04",
            fc=fill_colour(level),
            ec="none",
        )
        canvas.add_patch(box)
    text_colour = FAINT if level is None else ink(level)
    canvas.text(x, y, placed.text, fontsize=points, color=text_colour, va="center_baseline", parse_math=False)
    if placed.underlined:
        below = [y + 0.135 * zoom] * 2
        canvas.plot([x, x + placed.width], below, color=INK, lw=1.1, solid_capstyle="butt")


def wrap(text: str, width: float, points: float) -> list[str]:
    """A text in lines that fit into a width in inches. A longer word has a line of its own."""
    measure, lines = ruler(points), [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and measure(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def note_lines(notes: Sequence[str], width: float, points: float) -> list[str]:
    """Notes in lines that fit into a width in inches."""
    return [line for note in notes for line in wrap(f"Note: {note}", width, points)]


def write_notes(canvas: Axes, lines: Sequence[str], left: float, top: float, points: float) -> None:
    """Lines of notes below each other."""
    for number, line in enumerate(lines):
        y = top + NOTE_LINE * number
        canvas.text(left, y, line, fontsize=points, color=WARNING, va="center", parse_math=False)


def draw_ramp(
    sheet: Sheet, left: float, top: float, width: float, labels: tuple[str, str, str], points: float = 8.0
) -> None:
    """The scale of colours, with a label at its start, middle and end."""
    ramp = LinearSegmentedColormap.from_list("vtrace", [tuple(v / 255 for v in stop) for stop in STOPS])
    axes = sheet.axes_at(left, top, width, 0.16)
    axes.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=ramp)
    axes.axis("off")
    for place, text, align in zip((0.0, 0.5, 1.0), labels, ("left", "center", "right"), strict=True):
        sheet.canvas.text(left + place * width, top + 0.3, text, fontsize=points, color=FAINT, ha=align, va="center")


def ruler(points: float = TEXT_SIZE) -> TextRuler:
    """Width of a text in inches, in the font of the figure."""
    figure = Figure(figsize=(1, 1), dpi=100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    sample = figure.text(0, 0, "", fontsize=points, parse_math=False)

    def measure(text: str) -> float:
        sample.set_text(text)
        with _any_script():
            return sample.get_window_extent(renderer).width / 100

    return measure
