"""A comparison of methods or models in the terminal: what each finds, what it costs, how well they agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...methods.comparison import Comparison
from ...methods.model_comparison import Move
from ..shaded_text import answer_line, backdrop, facts_table
from ..wording import correlation_level, correlation_text, megabytes_text, percent, seconds_text, short_label


def show_comparison(comparison: Comparison, console: Console, count: int = 3) -> None:
    """Print the comparison."""
    console.print(Group(*_parts(comparison, count)))


def show_moves(found: Sequence[Move], console: Console) -> None:
    """Print the shares and ranks of patches and words by two models."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("what moved")
    for title in ("before", "after", "change", "rank"):
        table.add_column(title, justify="right")
    for move in found:
        change = f"{100 * move.change:+.1f} points"
        ranks = f"{move.rank_before} → {move.rank_after}"
        table.add_row(Text(short_label(move.item)), percent(move.before), percent(move.after), change, ranks)
    console.print("", table)


def _parts(comparison: Comparison, count: int) -> Iterator[RenderableType]:
    trace = comparison.trace
    yield facts_table(
        ("Question", Text(trace.question)),
        ("Answer", answer_line(trace.answer_text)),
        ("Target", Text(comparison.target.name)),
    )
    for note in comparison.warnings:
        yield Text(f"Note: {note}", "yellow")
    yield ""
    yield _methods(comparison, count)
    if len(comparison.results) > 1:
        yield ""
        yield Text("Rank correlation over patches and question words", "dim")
        yield _agreement(comparison)
    if trace.probed:
        yield Text(f"Note: {trace.placement_note}", "yellow")
    for reason in comparison.failures.values():
        yield Text(f"Not run: {reason}", "yellow")


def _methods(comparison: Comparison, count: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(comparison.compared, overflow="fold")
    for title in ("passes", "alone", "added", "memory", "image"):
        table.add_column(title, justify="right")
    table.add_column("strongest patches and words")
    for name, result in comparison.results.items():
        cost = comparison.costs[name]
        strongest = ", ".join(f"{short_label(item)} {percent(item.score)}" for item in result.top(count))
        table.add_row(
            name,
            str(cost.passes),
            seconds_text(cost.seconds),
            seconds_text(cost.own_seconds),
            megabytes_text(cost.memory),
            percent(result.image_share),
            Text(strongest),
        )
    return table


def _agreement(comparison: Comparison) -> Table:
    """Shaded numbers; columns have the numbers of the rows, so that many methods fit into a terminal."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("")
    names = list(comparison.results)
    for number in range(len(names)):
        table.add_column(str(number + 1), justify="right")
    for number, (name, row) in enumerate(zip(names, comparison.agreement, strict=True)):
        cells = [Text(correlation_text(value), backdrop(correlation_level(value))) for value in row]
        table.add_row(f"{number + 1:2d} {name}", *cells)
    return table
