"""What the README's tables say."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
Table = list[dict[str, str]]


def tables_of(path: str) -> list[Table]:
    """All tables of a Markdown page: a list of rows each, by column."""
    found: list[Table] = []
    lines = (ROOT / path).read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("|") or not set(line) <= set("|-: "):
            continue  # not the rule between head and body
        heads = cells(lines[number - 1])
        rows: Table = []
        for row in lines[number + 1 :]:
            if not row.startswith("|"):
                break
            rows.append(dict(zip(heads, cells(row), strict=True)))
        found.append(rows)
    return found


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split("|")]


def table_of(path: str, *columns: str) -> Table:
    """The one table of a page that has all of these columns."""
    (found,) = [table for table in tables_of(path) if set(columns) <= set(table[0])]
    return found


def overheads() -> list[dict[str, float]]:
    """The cost of an explanation, one row per length of the sequence."""
    columns = {
        "tokens": "tokens",
        "parameters": "parameters",
        "instrumented": "instrumented pass",
        "explanation": "full calibrated explanation",
        "all_tokens": "every response token as its own target, relative to one target",
        "memory": "peak memory, relative to a bare pass",
    }
    rows = table_of("README.md", *columns.values())
    return [{name: _number(row[head]) for name, head in columns.items()} for row in rows]


def method_costs() -> dict[str, float]:
    """Bare forward passes, by method."""
    (row,) = table_of("README.md", "rollout", "flowtracer", "chefer")
    return {name.split(",")[0]: float(cost) for name, cost in row.items()}


def _number(text: str) -> float:
    return float(text.replace(",", "").removesuffix(" M"))
