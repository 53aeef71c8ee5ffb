"""A response with its credit, in the terminal and as a figure: tokens on the colour of their scores, raised ones
underlined, unassigned ones in grey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from ..report.shaded_figure import (
    LINE,
    MARGIN,
    PlacedWord,
    Sheet,
    TextRuler,
    draw_ramp,
    ruler,
    write_figure,
    write_word,
)
from ..report.shaded_text import backdrop, facts_table
from ..report.wording import percent
from ..system.files import write_atomically
from ..system.fonts import drawn_in
from ..system.text_colours import FAINT, INK
from ..types import model_label
from .weight_rows import WeightRow

NEWLINE, SPACE = "↵", "␣"  # in place of what cannot be seen
_WIDTH, _HEAD, _FOOT = 9.0, 0.8, 0.75  # inches of a figure, and of what is above and below its text
_SEAM, _GAP = 0.045, 0.12  # inches between tokens of a word, and between words
MOST_LINES = 250  # of a figure
_SMALL = 9.0  # points
_RAISED, _UNKNOWN = "bold underline", "dim italic"  # styles in a terminal


class ShadedToken(NamedTuple):
    """A token, ready to be shown."""

    text: str
    level: float | None  # from 0 to 1; None if it is unassigned
    raised: bool


def shaded_tokens(row: WeightRow) -> list[ShadedToken]:
    """Scores relative to the highest. Rules that choose tokens raise some; the proportional rule raises by degrees,
    which the colour shows."""
    highest = max((score for score in row["scores"] if score is not None), default=0.0)
    floor = 1.0 if row["rule"] != "proportional" else float("inf")
    return [
        ShadedToken(text, None if score is None else max(score, 0.0) / highest if highest > 0 else 0.0, weight > floor)
        for text, score, weight in zip(row["tokens"], row["scores"], row["weights"], strict=True)
    ]


def describe_rule(row: WeightRow) -> str:
    """The rule and its settings in a few words."""
    if row["rule"] == "proportional":
        return f"proportional, up to × {row['boost']:g}"
    return f"top {100 * row['share']:g} % × {row['boost']:g}" + ", mean one" * (row["rule"] == "mean-one")


def describe_weights(row: WeightRow) -> str:
    """How many tokens have which weight, or why all have the same."""
    weights, scored = row["weights"], sum(score is not None for score in row["scores"])
    if row["status"] != "assigned":
        return f"{row['status']}: all {len(weights)} weights are 1"
    counts = sorted({(round(w, 3), sum(abs(w - other) < 5e-4 for other in weights)) for w in weights}, reverse=True)
    each = " and ".join(f"{weight:g} on {count}" for weight, count in counts)
    told = f"{each} of" if len(counts) < 4 else f"{counts[-1][0]:g} to {counts[0][0]:g} on"
    return f"{told} {len(weights)} tokens, {scored} of them scored; mean {sum(weights) / len(weights):.3g}"


def show_credit(row: WeightRow, console: Console) -> None:
    """Print the response with its credit."""
    facts = [
        ("Response", Text(row["key"])),
        (
            "Credit",
            Text(f"{row['source']} · {describe_rule(row)} · {model_label(row['model'], row['probed'])}", "bold"),
        ),
        ("Tokens", _shaded_text(shaded_tokens(row))),
        ("Weights", Text(describe_weights(row))),
    ]
    if row["status"] == "assigned":
        facts.append(("Legend", _legend_text(row)))
    if row["image_share"] is not None:
        facts.append(("Image", Text(f"{percent(row['image_share'])} of image and question")))
    console.print(facts_table(*facts))


def _shaded_text(tokens: Sequence[ShadedToken]) -> Text:
    text = Text()
    for token in tokens:
        style = _UNKNOWN if token.level is None else f"{_RAISED * token.raised} {backdrop(token.level)}"
        for piece in _pieces(token.text):
            text.append(piece.text, style.strip()).append("\n" * piece.ends_line)
    return text


def _legend_text(row: WeightRow) -> Text:
    legend = Text("score ").append(" low ", backdrop(0.0)).append(" ", backdrop(0.5)).append(" high ", backdrop(1.0))
    if row["rule"] != "proportional":
        legend.append(" · ").append("raised", _RAISED)
    return legend.append(" · ").append("unassigned", _UNKNOWN)


def draw_credit(row: WeightRow, path: Path) -> Path:
    """Write the figure as PNG."""
    return write_atomically(path, lambda file: write_figure(credit_figure(row), file, dpi=150))


def credit_figure(row: WeightRow) -> Figure:
    """Title, tokens and legend; as tall as the response is long."""
    with drawn_in([*(token.text for token in shaded_tokens(row)), row["model"]]):
        return _figure(row)


def _figure(row: WeightRow) -> Figure:
    lines = list(_layout(shaded_tokens(row), _WIDTH - 2 * MARGIN, ruler()))
    hidden = sum(map(len, lines[MOST_LINES:]))
    lines = lines[:MOST_LINES]
    sheet = Sheet.of_size(_WIDTH, _HEAD + LINE * len(lines) + _FOOT + 2 * MARGIN)
    _heading(sheet.canvas, row)
    y = MARGIN + _HEAD
    for line in lines:
        for placed, level in line:
            write_word(sheet.canvas, placed, MARGIN + placed.x, y, level, faintest=-1.0)
        y += LINE
    if hidden:
        _note(sheet.canvas, MARGIN, y, f"… and {hidden} more tokens")
    _legend(sheet, row, y + 0.35)
    return sheet.figure


class _PlacedToken(NamedTuple):
    placed: PlacedWord
    level: float | None


def _layout(tokens: Sequence[ShadedToken], width: float, measure: TextRuler) -> Iterator[list[_PlacedToken]]:
    line: list[_PlacedToken] = []
    x = 0.0
    for token in tokens:
        for piece in _pieces(token.text):
            shown = piece.text.strip() or SPACE
            size = measure(shown)
            x += (_GAP if piece.text[:1].isspace() else _SEAM) if line else 0.0
            if line and x + size > width:
                yield line
                line, x = [], 0.0
            line.append(_PlacedToken(PlacedWord(x, shown, size, None, token.raised), token.level))
            x += size
            if piece.ends_line:
                yield line
                line, x = [], 0.0
    if line:
        yield line


class _Piece(NamedTuple):
    text: str
    ends_line: bool


def _pieces(text: str) -> Iterator[_Piece]:
    """A token, divided at its line breaks."""
    *ended, rest = text.split("\n")
    yield from (_Piece(part + NEWLINE, True) for part in ended)
    if rest:
        yield _Piece(rest, False)


def _heading(canvas: Axes, row: WeightRow) -> None:
    title = f"{row['source']} · {describe_rule(row)}"
    canvas.text(MARGIN, MARGIN, title, fontsize=14, color=INK, fontweight="bold", va="center", parse_math=False)
    share = "" if row["image_share"] is None else f" · image {percent(row['image_share'])} of image and question"
    _note(
        canvas,
        MARGIN,
        MARGIN + 0.3,
        f"response: {row['key']} · model: {model_label(row['model'], row['probed'])}{share}",
    )


def _legend(sheet: Sheet, row: WeightRow, top: float) -> None:
    _note(sheet.canvas, MARGIN, top, f"Weights: {describe_weights(row)}")
    if row["status"] != "assigned":
        return
    highest = max(score for score in row["scores"] if score is not None)
    draw_ramp(sheet, MARGIN, top + 0.3, 3.2, ("0 or less", "score", f"{highest:.3g}"))
    measure, x = ruler(_SMALL), MARGIN + 3.6
    samples = [ShadedToken("unassigned", None, False)]
    if row["rule"] != "proportional":
        samples.insert(0, ShadedToken(f"raised to {max(row['weights']):.3g}", 0.0, True))
    for sample in samples:
        size = measure(sample.text)
        placed = PlacedWord(0.0, sample.text, size, None, sample.raised)
        write_word(sheet.canvas, placed, x, top + 0.38, sample.level, _SMALL, faintest=-1.0)
        x += size + 0.3


def _note(canvas: Axes, x: float, y: float, text: str) -> None:
    canvas.text(x, y, text, fontsize=8.5, color=FAINT, va="center", parse_math=False)
