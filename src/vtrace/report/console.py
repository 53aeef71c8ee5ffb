"""An attribution in the terminal: one ranking of patches and words, shares, calibration, the answer."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..attribution.result import Attribution
from ..viewer.palette import colour, ink
from .scale import Scale, calibration_words, percent


def show(attribution: Attribution, console: Console, count: int = 10) -> None:
    """Print the explanation."""
    console.print(render(attribution, count))


def render(attribution: Attribution, count: int = 10) -> RenderableType:
    trace = attribution.trace
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim")
    head.add_column()
    for turn in trace.turns[:-1]:
        head.add_row(turn.role.capitalize(), Text(" ".join("[picture]" if p is None else p for p in turn.parts)))
    head.add_row("Question", Text(trace.question))
    head.add_row("Response", _shaded(attribution))
    head.add_row("Answer", Text(trace.answer_text or "(no 'Final answer:' line)", "bold"))
    head.add_row("Target", Text(attribution.target.name))
    parts: list[RenderableType] = [
        head,
        "",
        _table(attribution, count),
        "",
        _balance(attribution),
        *_pictures(attribution),
        Text(calibration_words(attribution), "dim"),
    ]
    parts += [Text(f"Note: {note}", "yellow") for note in attribution.warnings]
    return Group(*parts)


def _table(attribution: Attribution, count: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    table.add_column("evidence")
    table.add_column("where", style="dim")
    items = attribution.top(count)
    full = items[0].score if items else 1.0
    for rank, item in enumerate(items, start=1):
        if item.box:
            where = "pixels {:.0f},{:.0f} to {:.0f},{:.0f}".format(*item.box)
        else:
            where = f"question token{'s' if len(item.positions) > 1 else ''} {item.positions[0]}"
        bar = Text(
            "█" * max(1, round(12 * item.score / full)) if full and item.score else "", _style(item.score / (full or 1))
        )
        label = item.label if item.kind == "image" else f"“{item.label}”"
        table.add_row(str(rank), percent(item.score), bar, Text(label), where)
    return table


def _style(strength: float) -> Style:
    red, green, blue = colour(0.25 + 0.6 * strength)
    return Style(color=f"rgb({red},{green},{blue})")


def _shaded(attribution: Attribution) -> Text:
    """The response with each word on the colour of its strength."""
    trace = attribution.trace
    scale = Scale(attribution)
    text = Text()
    end = trace.offsets[trace.prompt_length][0]
    for word in (w for w in trace.words if w.kind == "response" and not w.text.startswith("<|")):
        low, high = trace.offsets[word.start][0], trace.offsets[word.stop - 1][1]
        level = scale.strength(word.start, word.stop)
        piece = trace.text[max(low, end) : high]
        blank = len(piece) - len(piece.lstrip())
        style = f"{ink(level)} on rgb({','.join(map(str, colour(level)))})" if level > 0.08 else ""
        text.append(piece[:blank]).append(piece[blank:], style)
        end = max(end, high)
    return text


def _pictures(attribution: Attribution) -> list[RenderableType]:
    """Which picture, where there are several."""
    shares = attribution.picture_shares
    line = " · ".join(f"picture {k} {percent(share)}" for k, share in enumerate(shares, start=1))
    return [Text(line)] if len(shares) > 1 else []


def _balance(attribution: Attribution) -> Text:
    """Image against text as a bar of forty cells, with the numbers spelled out."""
    image = round(40 * attribution.image_share)
    dark, light = (f"rgb({','.join(map(str, colour(level)))})" for level in (0.8, 0.3))
    return Text.assemble(
        f"image {percent(attribution.image_share)} ", ("█" * image, dark), ("█" * (40 - image), light),
        f" {percent(attribution.text_share)} text",
    )  # fmt: skip
