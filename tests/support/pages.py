"""Tables of the documentation, read back so that tests can compare them with the code."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def table_under(page: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the Markdown table whose header row begins with this cell, without the header."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def names_in(cell: str) -> list[str]:
    """The names in backticks."""
    return re.findall(r"`([^`]+)`", cell)
