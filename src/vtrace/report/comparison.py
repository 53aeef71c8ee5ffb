"""A comparison of methods to look at: console and JSON here; figure, notebook and viewer in their own files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..errors import InputError
from ..methods.comparison import Comparison
from ..system.files import write_atomically
from ..viewer.palette import colour, ink
from .documents import attribution_document
from .scale import percent

SCHEMA = "vtrace.comparison/1"


def save(comparison: Comparison, path: str | Path) -> Path:
    """Write a comparison in the format of the name's ending."""
    ending = Path(path).suffix.lower()
    if ending == ".json":
        text = json.dumps(comparison_document(comparison), ensure_ascii=False)
        return write_atomically(path, lambda file: file.write_text(text, "utf-8"))
    if ending == ".html":
        from ..viewer.page import write_page

        return write_page(list(comparison.results.values()), path, remarks={**costs(comparison), **comparison.failures})
    if ending == ".png":
        from .comparison_png import draw

        return write_atomically(path, lambda file: draw(comparison, file))
    raise InputError(f"cannot save as {Path(path).name!r}: the name has to end in .json, .html or .png")


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Scores, costs and agreement as JSON, without pictures."""
    trace = comparison.trace
    wanted = ("scores", "options", "image_share", "text_share", "calibration", "warnings", "top", "details")
    methods = {}
    for name, result in comparison.results.items():
        whole, cost = attribution_document(result, whole=False), comparison.costs[name]
        methods[name] = {
            **{key: whole[key] for key in wanted},
            "seconds": cost.seconds, "own_seconds": cost.own_seconds, "shared": cost.shared,
            "memory_bytes": cost.memory,
        }  # fmt: skip
    matrix = [[None if math.isnan(v) else float(v) for v in row] for row in comparison.agreement]
    return {
        "schema": SCHEMA,
        "model": trace.model,
        "question": trace.question,
        "response": trace.response,
        "answer": trace.answer_text,
        "target": {"name": comparison.target.name, "positions": list(comparison.target.positions)},
        "kinds": list(trace.kinds),
        "methods": methods,
        "agreement": {"methods": list(comparison.results), "spearman": matrix},
        "failures": comparison.failures,
    }


def costs(comparison: Comparison) -> dict[str, str]:
    """What each method cost, in a few words."""
    return {name: f"{seconds(cost.seconds)} alone, {megabytes(cost.memory)}" for name, cost in comparison.costs.items()}


def show(comparison: Comparison, console: Console, count: int = 3) -> None:
    """Print the comparison."""
    console.print(render(comparison, count))


def render(comparison: Comparison, count: int = 3) -> RenderableType:
    trace = comparison.trace
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim")
    head.add_column()
    head.add_row("Question", Text(trace.question))
    head.add_row("Answer", Text(trace.answer_text or "(no 'Final answer:' line)", "bold"))
    head.add_row("Target", Text(comparison.target.name))
    parts: list[RenderableType] = [head, "", _methods(comparison, count)]
    if len(comparison.results) > 1:
        parts += ["", Text("Rank correlation over patches and question words", "dim"), _agreement(comparison)]
    parts += [Text(f"Not run: {reason}", "yellow") for reason in comparison.failures.values()]
    return Group(*parts)


def _methods(comparison: Comparison, count: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("method")
    for title in ("alone", "added", "memory", "image"):
        table.add_column(title, justify="right")
    table.add_column("strongest evidence")
    for name, result in comparison.results.items():
        cost = comparison.costs[name]
        found = ", ".join(f"{short(item)} {percent(item.score)}" for item in result.top(count))
        table.add_row(
            name, seconds(cost.seconds), seconds(cost.own_seconds), megabytes(cost.memory),
            percent(result.image_share), Text(found),
        )  # fmt: skip
    return table


def _agreement(comparison: Comparison) -> Table:
    """Shaded figures, columns numbered as the rows, so that many methods fit into a terminal."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("")
    names = list(comparison.results)
    for number in range(len(names)):
        table.add_column(str(number + 1), justify="right")
    for number, (name, row) in enumerate(zip(names, comparison.agreement, strict=True)):
        cells = []
        for value in row:
            level = 0.0 if math.isnan(value) else max(0.0, value) * 0.8
            style = f"{ink(level)} on rgb({','.join(map(str, colour(level)))})"
            cells.append(Text(correlation(value), style))
        table.add_row(f"{number + 1:2d} {name}", *cells)
    return table


def short(item: Any) -> str:
    """A piece of evidence in few letters: a word in quotes, or a patch by row and column."""
    if item.kind == "image":
        return item.label.replace("patch row ", "r").replace(" column ", "c")
    return f"“{item.label}”"


def correlation(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}".replace("0.", ".").replace("1.00", "1")


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def megabytes(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:.0f} MB"
