"""An attribution in the terminal: one ranking of patches and words, shares, calibration, the answer."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...attribution.result import Attribution, RankedInput
from ...viewer.palette import css_colour
from ..shaded_text import answer_line, facts_table, shaded_response
from ..verification_console import verification_parts
from ..wording import (
    calibration_details,
    calibration_sentence,
    percent,
    quoted_label,
    visual_dependence_sentence,
)
from .contrast_console import contrast_parts

BAR, BALANCE = 12, 40  # characters


def show_attribution(attribution: Attribution, console: Console, count: int = 10) -> None:
    """Print the explanation."""
    console.print(Group(*_parts(attribution, count)))


def _parts(attribution: Attribution, count: int) -> Iterator[RenderableType]:
    trace = attribution.trace
    yield facts_table(
        *((turn.role.capitalize(), Text(_spoken(turn.parts))) for turn in trace.turns[:-1]),
        ("Question", Text(trace.question)),
        ("Response", shaded_response(attribution)),
        ("Answer", answer_line(trace.answer_text)),
        ("Target", Text(attribution.target.name)),
    )
    for note in attribution.warnings:
        yield Text(f"Note: {note}", "yellow")
    yield ""
    yield _ranking(attribution, count)
    yield ""
    yield _balance(attribution)
    if len(shares := attribution.picture_shares) > 1:
        yield Text(" · ".join(f"picture {k} {percent(share)}" for k, share in enumerate(shares, start=1)))
    if attribution.regions:
        yield facts_table(*((r.name, Text(percent(r.share(attribution.scores)))) for r in attribution.regions))
    yield Text(calibration_sentence(attribution))
    if details := calibration_details(attribution):
        yield Text(details, "dim")
    if attribution.likelihoods is not None:
        yield Text(visual_dependence_sentence(attribution))
    if attribution.contrast:
        yield ""
        yield from contrast_parts(attribution, attribution.contrast, count)
    if attribution.verification:
        yield ""
        yield from verification_parts(attribution.verification)


def _spoken(parts: tuple[str | None, ...]) -> str:
    return " ".join("[picture]" if part is None else part for part in parts)


def _ranking(attribution: Attribution, count: int) -> Table:
    items, places = attribution.top(count), _question_words(attribution)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    table.add_column("patch or word")
    table.add_column("where", style="dim")
    full = items[0].score if items and items[0].score else 1.0
    for rank, item in enumerate(items, start=1):
        level = item.score / full
        bar = Text("█" * max(1, round(BAR * level)) if item.score else "", css_colour(0.25 + 0.6 * level))
        table.add_row(str(rank), percent(item.score), bar, Text(quoted_label(item)), _where(item, places))
    return table


def _question_words(attribution: Attribution) -> dict[int, int]:
    """Numbers of the words of the question, from 1, by their first positions. Punctuation has none."""
    asked = [word for word in attribution.trace.words if word.kind == "question"]
    starts = [word.start for word in asked if any(letter.isalnum() for letter in word.text)]
    return {start: number for number, start in enumerate(starts, start=1)}


def _where(item: RankedInput, places: dict[int, int]) -> str:
    if item.box:
        return "pixels {:.0f},{:.0f} to {:.0f},{:.0f}".format(*item.box)
    number = places.get(item.positions[0])
    return "question" if number is None else f"question, word {number}"


def _balance(attribution: Attribution) -> Text:
    """Image against question as a bar, with the numbers spelled out."""
    image = round(BALANCE * attribution.image_share)
    return Text.assemble(
        f"image {percent(attribution.image_share)} ",
        ("█" * image, css_colour(0.8)),
        ("█" * (BALANCE - image), css_colour(0.3)),
        f" {percent(attribution.text_share)} question",
    )
