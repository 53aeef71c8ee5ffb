"""Does an attribution find what the answer depends on? Only for examples whose evidence is known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ..types import Box, Example, Span, Trace

RECALLS = (0.05, 0.10, 0.20)  # shares of the ranking at which recall is measured


class EvidencePositions(NamedTuple):
    """Image and question positions of the known evidence, or of what could be mistaken for it."""

    image: list[int]
    question: list[int]


def evidence_positions(trace: Trace) -> EvidencePositions:
    """Image positions with evidence in more than a tenth of their cell, and question positions of evidence words."""
    return _positions(trace, trace.evidence_boxes, trace.evidence_words)


def other_positions(trace: Trace, example: Example) -> EvidencePositions:
    """The same for what could be mistaken for the evidence: other things in the picture, words of other facts.
    Positions that also hold evidence are left out."""
    others, evidence = _positions(trace, example.other_boxes, example.other_words), evidence_positions(trace)
    return EvidencePositions(
        [p for p in others.image if p not in evidence.image], [p for p in others.question if p not in evidence.question]
    )


def _positions(trace: Trace, boxes: Sequence[Box], spans: Sequence[Span]) -> EvidencePositions:
    patches = [p.position for p in trace.patches if any(_overlap(p.box, box) for box in boxes)]
    asked = trace.positions("question")
    start = trace.text.find(trace.question, trace.offsets[asked[0]][0]) if asked else 0
    words = [
        p
        for p in asked
        if any(trace.offsets[p][0] < start + high and trace.offsets[p][1] > start + low for low, high in spans)
    ]
    return EvidencePositions(patches, words)


def _overlap(cell: Box, box: Box) -> bool:
    """Whether more than a tenth of the cell lies in the box."""
    width = min(cell[2], box[2]) - max(cell[0], box[0])
    height = min(cell[3], box[3]) - max(cell[1], box[1])
    return width > 0 and height > 0 and width * height > 0.1 * (cell[2] - cell[0]) * (cell[3] - cell[1])


def localisation(
    scores: np.ndarray, positions: Sequence[int], evidence: Sequence[int], others: Collection[int] = ()
) -> dict[str, float]:
    """Energy, pointing, rank AUC and recalls of the evidence among `positions`; ties count as their expected value.

    `base` is the share of positions that are evidence: the energy and pointing expected by chance. `others` are
    positions that could be mistaken for evidence: a ranking that prefers them to the background has a high `auc`
    whatever was asked, and only `auc_others`, against these alone, shows that.
    """
    values = np.clip(scores[list(positions)], 0, None)
    inside = np.isin(positions, list(evidence))
    if not inside.any() or inside.all():
        return {}
    total = values.sum()
    best = values == values.max()
    found = {
        "base": float(inside.mean()),
        "energy": float(values[inside].sum() / total) if total > 0 else float(inside.mean()),
        "pointing": float(inside[best].mean()),
        "auc": _auc(values[inside], values[~inside]),
    }
    if others:
        found["auc_others"] = _auc(values[inside], values[np.isin(positions, list(others))])
    for share in RECALLS:
        found[f"recall_{round(100 * share)}"] = _recall(values, inside, max(1, round(share * len(values))))
    return found


def _auc(evidence: np.ndarray, others: np.ndarray) -> float:
    """Probability that an evidence position outranks another position; a tie counts half."""
    a, b = evidence[:, None], others[None]
    return float(((a > b) + 0.5 * (a == b)).mean())


def _recall(values: np.ndarray, inside: np.ndarray, count: int) -> float:
    """Share of the evidence among the `count` strongest; tied positions count in proportion."""
    edge = np.sort(values)[::-1][count - 1]
    above, tied = values > edge, values == edge
    room = count - above.sum()
    return float((inside[above].sum() + room * inside[tied].mean()) / inside.sum())


def captured_dependence(scores: np.ndarray, reference: np.ndarray, positions: Sequence[int], top: float = 0.2) -> float:
    """Share of the measured dependence (of leave-one-out) that the top-ranked patches hold."""
    measured = np.clip(reference[list(positions)], 0, None)
    order = np.argsort(-np.abs(scores[list(positions)]), kind="stable")[: max(1, round(top * len(positions)))]
    return float(measured[order].sum() / measured.sum()) if measured.sum() > 0 else float("nan")
