"""Shaded words and figures in a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from ..attribution.result import Attribution
from ..tracing.spans import word_pieces
from ..viewer.palette import css_colour, ink
from .scale import Scale


def backdrop(strength: float) -> str:
    """Readable text on the colour of a strength."""
    return f"{ink(strength)} on {css_colour(strength)}"


def facts_table(*rows: tuple[str, Text]) -> Table:
    """Names and values below each other."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


def answer_line(answer: str | None) -> Text:
    return Text(answer or "(no 'Final answer:' line)", "bold")


def shaded_response(attribution: Attribution) -> Text:
    """The response with each word on the colour of its strength."""
    trace = attribution.trace
    scale = Scale(attribution)
    text = Text()
    for word, before, shown, after in word_pieces(trace, "response"):
        level = scale.strength(word.start, word.stop)
        text.append(before).append(shown, backdrop(level) if level > 0.08 else "").append(after)
    return text
