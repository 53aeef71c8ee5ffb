"""Which inputs are hidden together while a ranking is refined: single ones, or squares of patches that are split where
they matter. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..types import Trace

LARGE_GRID = 128  # patches; of more, squares are hidden before single ones

Positions = tuple[int, ...]


@dataclass
class HiddenGroup:
    """Inputs that were hidden together, what that cost, and the groups that they were split into afterwards."""

    positions: Positions
    drop: float  # nats
    parts: list[HiddenGroup] = field(default_factory=list)


def first_groups(trace: Trace, most: int = LARGE_GRID) -> list[Positions]:
    """Every question token, and every patch; of more than `most` patches, squares that are large enough for as few.
    A square lies on one picture, so there are at least as many as there are pictures."""
    most = max(most, len({patch.panel for patch in trace.patches}))
    side = 1
    while len(squares := _squares(trace, side)) > most:
        side *= 2
    return [*squares, *((position,) for position in trace.positions("question"))]


def _squares(trace: Trace, side: int) -> list[Positions]:
    found: dict[tuple[int, ...], list[int]] = {}
    for patch in trace.patches:
        place = (*patch.panel, patch.row // side, patch.column // side)
        found.setdefault(place, []).append(patch.position)
    return [tuple(sorted(positions)) for positions in found.values()]


def quarters(trace: Trace, positions: Positions) -> list[Positions]:
    """The parts of a square of patches: four, or two of a single row or column."""
    places = {patch.position: (patch.row, patch.column) for patch in trace.patches}
    where = np.array([places[position] for position in positions])
    middle = (where.min(axis=0) + where.max(axis=0) + 1) // 2
    parts: dict[tuple[bool, ...], list[int]] = {}
    for position, place in zip(positions, where, strict=True):
        parts.setdefault(tuple(place >= middle), []).append(position)
    return [tuple(part) for part in parts.values()]


def hide_strongest(
    groups: Sequence[Positions],
    weights: np.ndarray,
    passes: int,
    split: Callable[[Positions], list[Positions]],
    measure: Callable[[list[Positions]], list[float]],
) -> list[HiddenGroup]:
    """Hide the groups with the largest weights (T), one in each pass.

    If groups have several inputs, half of the passes are kept for splitting those that cost most. Passes that no
    split can use go to the next groups.
    """
    waiting = sorted(groups, key=lambda group: -float(weights[list(group)].sum()))
    every: list[HiddenGroup] = []  # also parts
    left = passes

    def hide(chosen: list[Positions]) -> list[HiddenGroup]:
        nonlocal left
        left -= len(chosen)
        found = [HiddenGroup(*pair) for pair in zip(chosen, measure(chosen), strict=True)]
        every.extend(found)
        return found

    def hide_next(count: int) -> list[HiddenGroup]:
        chosen = waiting[:count]
        del waiting[:count]
        return hide(chosen)

    whole = hide_next(passes if all(len(group) == 1 for group in groups) else max(1, passes // 2))
    while left:
        candidates = [group for group in every if len(group.positions) > 1 and not group.parts and group.drop > 0]
        if chosen := _affordable(sorted(candidates, key=lambda group: -group.drop), split, left):
            parts = iter(hide([part for _, these in chosen for part in these]))
            for group, these in chosen:
                group.parts = [next(parts) for _ in these]
        elif waiting:
            whole += hide_next(left)
        else:
            break
    return whole


def _affordable(
    candidates: Sequence[HiddenGroup], split: Callable[[Positions], list[Positions]], left: int
) -> list[tuple[HiddenGroup, list[Positions]]]:
    """The first candidates whose parts need half of the remaining passes, or at least one candidate if it fits."""
    chosen: list[tuple[HiddenGroup, list[Positions]]] = []
    spent = 0
    for group in candidates:
        parts = split(group.positions)
        if spent + len(parts) <= (left if not chosen else left // 2):
            chosen.append((group, parts))
            spent += len(parts)
    return chosen


def drops_of_inputs(groups: Sequence[HiddenGroup], weights: np.ndarray) -> dict[int, float]:
    """What each hidden input cost. A group's cost is divided by weight; so is what a group cost beyond its parts, which
    stand in for each other while they are hidden singly."""
    found: dict[int, float] = {}
    for group in groups:
        shared = max(0.0, group.drop - sum(max(0.0, part.drop) for part in group.parts)) if group.parts else group.drop
        found |= drops_of_inputs(group.parts, weights)
        for position, share in zip(group.positions, _shares(weights[list(group.positions)]), strict=True):
            found[position] = found.get(position, 0.0) + shared * share
    return found


def _shares(weights: np.ndarray) -> Iterator[float]:
    total = float(weights.sum())
    yield from (weights / total if total else np.full(len(weights), 1 / len(weights))).tolist()
