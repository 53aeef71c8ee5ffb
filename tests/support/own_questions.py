"""A user's file of questions with everything that can be wrong with one."""

from __future__ import annotations

import json
from pathlib import Path

import vtrace
from vtrace.types import Example

GOOD = ("right place", "wrong box", "supplied", "<b>odd</b> ../name")
BAD = {
    "no picture": "there is no picture at",
    "bad box": "lies outside the picture, which has",
    "6": "line 7 of .* is not JSON",
}


def write_questions(folder: Path) -> Path:
    """Four questions that can be explained, and three that cannot."""
    shown = vtrace.example("test-11")
    shown.images[0].save(folder / "shapes.png")
    asked = {"image": "shapes.png", "question": shown.question, "answer": shown.answer}
    boxes = [list(box) for box in shown.evidence_boxes]
    lines = [
        {**asked, "id": GOOD[0], "boxes": boxes},
        {**asked, "id": GOOD[1], "box": _empty_corner(shown)},
        {**asked, "id": GOOD[2], "response": "I cannot see it."},
        {**asked, "id": GOOD[3], "question": "<script>alert(1)</script> Is there a red star?", "answer": "no"},
        {"id": "no picture", "image": "nowhere.png", "question": "Is it?"},
        {**asked, "id": "bad box", "box": [900, 900, 950, 950]},
    ]
    place = folder / "mine.jsonl"
    place.write_text("\n".join([*map(json.dumps, lines), "{"]), "utf-8")
    return place


def _empty_corner(example: Example) -> list[float]:
    """A patch-sized box in the corner that is farthest from all evidence."""
    width, height = example.images[0].size
    corners = [(x, y) for x in (0, width - 16) for y in (0, height - 16)]
    x, y = max(corners, key=lambda c: min(abs(c[0] - b.left) + abs(c[1] - b.top) for b in example.evidence_boxes))
    return [x, y, x + 16, y + 16]
