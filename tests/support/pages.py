"""Tables of the documentation, read back so that tests can compare them with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COSTS = "docs/results/cost.md"


class Table(NamedTuple):
    """Cells of a Markdown table."""

    heads: list[str]
    rows: list[list[str]]

    def records(self) -> list[dict[str, str]]:
        """Rows by column."""
        return [dict(zip(self.heads, row, strict=True)) for row in self.rows]


def tables_of(page: Path) -> list[Table]:
    """All tables of a page."""
    blocks = re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), re.MULTILINE)
    rows = ([_cells(line) for line in block.splitlines()] for block in blocks)
    return [Table(heads, body) for heads, _, *body in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def table_under(page: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the table in docs/ whose header row begins with this cell, without the header."""
    return next(table.rows for table in tables_of(DOCS / page) if table.heads[0] == heading)


def table_with(page: str, *columns: str) -> list[dict[str, str]]:
    """Rows, by column, of the one table of a page that has all of these columns."""
    (found,) = [table for table in tables_of(ROOT / page) if set(columns) <= set(table.heads)]
    return found.records()


def names_in(cell: str) -> list[str]:
    """The names in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def stated_overheads() -> list[dict[str, float]]:
    """What the docs say about the cost of an explanation, one row per length of the sequence."""
    columns = {
        "tokens": "tokens",
        "parameters": "parameters",
        "instrumented": "instrumented pass",
        "explanation": "full calibrated explanation",
        "all_tokens": "every response token as its own target, relative to one target",
        "memory": "peak memory, relative to a bare pass",
    }
    rows = table_with(COSTS, *columns.values())
    return [{name: _number(row[head]) for name, head in columns.items()} for row in rows]


def stated_method_costs() -> dict[str, float]:
    """What the docs say about the cost of other methods, in bare forward passes."""
    (row,) = table_with(COSTS, "rollout", "flowtracer", "chefer")
    return {name.split(",")[0]: float(cost) for name, cost in row.items()}


def _number(text: str) -> float:
    return float(text.replace(",", "").removesuffix(" M"))
