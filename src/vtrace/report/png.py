"""One figure: the picture, its patches, and the question and response with shaded words, on one scale."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from ..attribution.result import Attribution, RankedInput
from ..types import Panel, Trace
from ..viewer.palette import STOPS, colour, ink
from .scale import Scale, calibration_words, panel_title, percent

INK, FAINT = "#1f1a24", "#746c7b"
WIDTH, MARGIN, GAP = 12.0, 0.45, 0.35  # inches
LINE, SIZE = 0.315, 11.5  # line height in inches, text size in points
ROW, LISTED = 0.25, 8  # height of a line of the ranking, and how many there are


def draw(attribution: Attribution, path: Path) -> None:
    """Write the figure as PNG."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as a box, which says enough
        build(attribution).savefig(path, format="png", dpi=150, facecolor="white")


def build(attribution: Attribution) -> Figure:
    """Pictures on the left, text on the right; as tall as its contents need."""
    trace = attribution.trace
    scale = Scale(attribution)
    measure = ruler()
    panels = trace.panels
    picture = min([4.6, *(6.0 * image.width / image.height for image in trace.images)])
    sizes = [panel_size(trace, panel, picture) for panel in panels]
    tall = sum(high + GAP for _, high in sizes)
    left = MARGIN + (picture + GAP if panels else 0)
    lines = layout(attribution, WIDTH - left - MARGIN, measure)
    items = attribution.top(LISTED)
    text_height = LINE * len(lines) + 1.75 + ROW * len(items)
    height = max(tall + 0.4, text_height) + 2 * MARGIN
    figure, canvas = sheet(WIDTH, height)
    top = MARGIN
    for panel, (wide, high) in zip(panels, sizes, strict=True):
        axes = figure.add_axes((MARGIN / WIDTH, 1 - (top + high) / height, wide / WIDTH, high / height))
        picture_axes(axes, attribution, panel, scale)
        top += high + GAP
    _legend(figure, canvas, MARGIN, top, picture if panels else 4.0, scale.full, height)
    bottom = write(canvas, lines, left, MARGIN, scale)
    _balance(canvas, attribution, left, bottom + 0.25, WIDTH - left - MARGIN)
    _ranking(canvas, items, left, bottom + 1.15, WIDTH - left - MARGIN)
    return figure


def sheet(width: float, height: float):
    """An empty figure, and axes over all of it in inches from the top left corner."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set_xlim(0, width)
    canvas.set_ylim(height, 0)
    canvas.axis("off")
    return figure, canvas


def panel_size(trace: Trace, panel: Panel, width: float) -> tuple[float, float]:
    """Width and height in inches; thumbnails are drawn smaller, as the model sees them."""
    image, view = panel
    wide = width * (0.45 if view else 1.0)
    return wide, wide * trace.images[image].height / trace.images[image].width


def picture_axes(axes, attribution: Attribution, panel: Panel, scale: Scale) -> None:
    """The picture in grey, each patch tinted by its strength; the strongest ones outlined, in their own colours."""
    trace = attribution.trace
    image = trace.images[panel[0]]
    grey = np.asarray(image.convert("L").convert("RGB"), dtype=float) / 255
    shown = 0.35 + 0.65 * grey
    original = np.asarray(image, dtype=float) / 255
    patches = [p for p in trace.patches if (p.image, p.view) == panel]
    for patch in patches:
        left, top, right, bottom = (round(v) for v in patch.box)
        level = scale.strength(patch.position)
        tint = np.array(colour(level)) / 255
        weight = 0.12 + 0.42 * level
        base = 0.5 * original[top:bottom, left:right] + 0.5 * shown[top:bottom, left:right]
        shown[top:bottom, left:right] = (1 - weight) * base + weight * tint
    axes.imshow(shown, interpolation="bilinear")
    for patch in patches:
        if patch.position in scale.outlined:
            x, y, x_end, y_end = patch.box
            edge = np.array(colour(max(0.45, scale.strength(patch.position)))) / 255
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), x_end - x, y_end - y, fill=False, lw=1.6, ec=edge))
    if title := panel_title(attribution, panel):
        axes.set_title(title, fontsize=8, color=FAINT, loc="left", pad=3)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def layout(attribution: Attribution, width: float, measure, kinds=("question", "response")) -> list[list[tuple]]:
    """Lines of (x, text, width, position range or None, style) for question and response."""
    trace = attribution.trace
    targeted = set(attribution.target.positions)
    lines: list[list[tuple]] = []
    for kind in kinds:
        lines.append([(0.0, kind.upper(), 0.0, None, "title")])
        lines.append([])
        x = 0.0
        for word in trace.words:
            if word.kind != kind or word.text.startswith("<|"):
                continue
            low = trace.offsets[word.start][0]
            before = trace.text[low : trace.offsets[word.stop - 1][1]]
            glued = x > 0 and not before[:1].isspace() and not trace.text[low - 1 : low].isspace()
            size = measure(word.text)
            x += 0 if glued or x == 0 else 0.075
            ended = kind == "response" and "\n" in trace.text[trace.offsets[word.start - 1][0] : low + 1]
            broke = ended or trace.kinds[word.start - 1] != kind  # a line, a turn, or a picture in between
            if x > 0 and (x + size > width or broke):
                lines.append([])
                x = 0.0
            style = "target" if targeted & set(range(word.start, word.stop)) else "word"
            lines[-1].append((x, word.text, size, (word.start, word.stop), style))
            x += size
        lines.append([])
    return lines


def write(canvas, lines: list[list[tuple]], left: float, top: float, scale: Scale, points: float = SIZE) -> float:
    """Shaded words, a line below the other; returns where they end."""
    zoom = points / SIZE
    y = top + 0.12
    for line in lines:
        for x, text, size, span, style in line:
            if style == "title":
                canvas.text(left, y, text, fontsize=8 * zoom**0.5, color=FAINT, va="center", fontweight="bold")
                continue
            level = scale.strength(*span)
            if level > 0.02:
                box = FancyBboxPatch(
                    (left + x - 0.02, y - 0.115 * zoom), size + 0.04, 0.23 * zoom,
                    boxstyle="round,pad=0,rounding_size=0.04", fc=np.array(colour(level)) / 255, ec="none",
                )  # fmt: skip
                canvas.add_patch(box)
            canvas.text(left + x, y, text, fontsize=points, color=ink(level), va="center_baseline", parse_math=False)
            if style == "target":
                place = [y + 0.135 * zoom] * 2
                canvas.plot([left + x, left + x + size], place, color=INK, lw=1.1, solid_capstyle="butt")
        y += LINE * zoom
    return y


def _legend(figure, canvas, left: float, top: float, width: float, full: float, height: float) -> None:
    ramp = LinearSegmentedColormap.from_list("vtrace", [tuple(v / 255 for v in stop) for stop in STOPS])
    axes = figure.add_axes((left / WIDTH, 1 - (top + 0.16) / height, width / WIDTH, 0.16 / height))
    axes.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=ramp)
    axes.axis("off")
    for place, text, align in ((0, "0 %", "left"), (1, f"{percent(full)} and more", "right")):
        canvas.text(left + place * width, top + 0.3, text, fontsize=8, color=FAINT, ha=align, va="center")
    label = "share of the evidence"
    canvas.text(left + width / 2, top + 0.3, label, fontsize=8, color=FAINT, ha="center", va="center")


def _balance(canvas, attribution: Attribution, left: float, top: float, width: float) -> None:
    image = attribution.image_share
    dark, light = (np.array(colour(level)) / 255 for level in (0.8, 0.3))
    canvas.add_patch(Rectangle((left, top), width * image, 0.16, fc=dark, ec="none"))
    canvas.add_patch(Rectangle((left + width * image, top), width * (1 - image), 0.16, fc=light, ec="none"))
    canvas.text(left, top - 0.13, f"image {percent(image)}", fontsize=9, color=INK, va="center")
    question = f"question {percent(attribution.text_share)}"
    canvas.text(left + width, top - 0.13, question, fontsize=9, color=INK, ha="right", va="center")
    canvas.text(left, top + 0.33, calibration_words(attribution), fontsize=8, color=FAINT, va="center")
    about = f"{attribution.method} · target: {attribution.target.name} (underlined) · model: {attribution.trace.model}"
    canvas.text(left, top + 0.55, about, fontsize=8, color=FAINT, va="center", parse_math=False)


def _ranking(canvas, items: list[RankedInput], left: float, top: float, width: float) -> None:
    """The strongest evidence, patches and words in one list."""
    canvas.text(left, top, "STRONGEST EVIDENCE", fontsize=8, color=FAINT, va="center", fontweight="bold")
    full = items[0].score if items and items[0].score else 1.0
    for rank, item in enumerate(items, start=1):
        y = top + 0.08 + ROW * rank
        label = item.label if item.kind == "image" else f"“{item.label}”"
        canvas.text(left, y, label, fontsize=9, color=INK, va="center_baseline", parse_math=False)
        canvas.text(left + 2.75, y, percent(item.score), fontsize=9, color=INK, va="center_baseline", ha="right")
        level = item.score / full
        fill = np.array(colour(0.25 + 0.6 * level)) / 255
        canvas.add_patch(Rectangle((left + 2.9, y - 0.07), (width - 2.9) * level, 0.13, fc=fill, ec="none"))


def ruler(points: float = SIZE):
    """Width of a text in inches, in the font of the figure."""
    figure = Figure(figsize=(1, 1), dpi=100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    sample = figure.text(0, 0, "", fontsize=points, parse_math=False)

    def measure(text: str) -> float:
        sample.set_text(text)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            return sample.get_window_extent(renderer).width / 100

    return measure
