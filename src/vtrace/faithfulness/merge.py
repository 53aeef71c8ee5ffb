"""Several files of one run as one: shards, other shards of the same items, or copies that went on elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .rows import RunRows, TableName

# What names a row of a table; earlier files win.
_KEYS: Mapping[TableName, tuple[str, ...]] = {
    "item": ("key",),
    "result": ("item", "target", "method"),
    "curve": ("item", "target", "method", "setting", "mode"),
    "evidence": ("item", "target", "method", "kind", "metric"),
    "failure": ("item", "target", "method"),
    "left_out": ("item",),
    "lost": ("file",),
}


def merge_rows(parts: Sequence[RunRows]) -> RunRows:
    """All rows, each once: the one of the earliest part that has it.

    An item that two parts asked and that got two different responses counts with the first: what was measured on the
    other response says nothing about this one. Nothing that was measured counts as failed or left out.
    """
    merged = RunRows()
    replies: dict[str, str] = {}
    for part in parts:
        other = {row["key"] for row in part.item if replies.get(row["key"], row["reply"]) != row["reply"]}
        for table, keys in _KEYS.items():
            known = {_name(row, keys) for row in getattr(merged, table)}
            new = [row for row in getattr(part, table) if row.get("item", row.get("key")) not in other]
            getattr(merged, table).extend(row for row in new if _name(row, keys) not in known)
        replies |= {row["key"]: row["reply"] for row in part.item if row["key"] not in replies}
    measured = {_name(row, _KEYS["result"]) for row in merged.result}
    merged.failure[:] = [row for row in merged.failure if _name(row, _KEYS["failure"]) not in measured]
    merged.left_out[:] = [row for row in merged.left_out if row["item"] not in replies]
    _sort_by_number(merged)
    return merged


def _name(row: Mapping[str, Any], keys: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def _sort_by_number(rows: RunRows) -> None:
    """In the order of the benchmark, whichever worker was first."""
    numbers = {row["key"]: row["number"] for row in rows.item}
    rows.item.sort(key=lambda row: row["number"])
    for table in (rows.result, rows.curve, rows.evidence, rows.failure):
        table.sort(key=lambda row: numbers.get(row["item"], -1))
    rows.left_out.sort(key=lambda row: row["item"])
