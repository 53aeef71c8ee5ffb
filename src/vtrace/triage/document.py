"""What was found about every question of a folder, as JSON: for pipes, and for the triage page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..benchmarks.grading import CORRECT
from .flags import FLAGS, flags_of
from .rows import ExplanationRow
from .store import Explanations, read_explanations

TRIAGE_SCHEMA = "vtrace.triage/1"
ONLY_ON_THE_PAGE = ("thumbnail", "evidence", "given", "number")


def triage_document(folder: Path) -> dict[str, Any]:
    """Settings, items with their flags, and what was left out. Thumbnails are on the page only."""
    found = read_explanations(folder)
    items = [{k: v for k, v in entry.items() if k not in ONLY_ON_THE_PAGE} for entry in map(item_entry, found.rows)]
    return {"schema": TRIAGE_SCHEMA, "folder": str(folder), **found.settings, **rest_of(found), "items": items}


def item_entry(row: ExplanationRow) -> dict[str, Any]:
    """A row, whether its answer is correct, and its flags."""
    verdict = row["verdict"]
    return {**row, "correct": CORRECT[verdict] if verdict else None, "flags": flags_of(row)}


def rest_of(found: Explanations) -> dict[str, Any]:
    return {
        "flags": FLAGS,
        "left_out": found.left_out,
        "unverified": found.unverified,
        "lost": [{"file": name, "reason": reason} for name, reason in found.lost],
    }
