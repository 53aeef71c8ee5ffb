"""Which inputs are measured together while a ranking is refined: single ones, or squares of patches that are split
where they matter. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..types import Trace

LARGE_GRID = 128  # patches; of more, squares are measured before single ones

Positions = tuple[int, ...]


@dataclass
class MeasuredGroup:
    """Inputs that were measured together, their worth, and the groups that they were split into afterwards."""

    positions: Positions
    worth: float  # nats
    parts: list[MeasuredGroup] = field(default_factory=list)


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


def measure_strongest(
    groups: Sequence[Positions],
    weights: np.ndarray,
    budget: int,
    split: Callable[[Positions], list[Positions]],
    measure: Callable[[list[Positions]], list[float]],
) -> list[MeasuredGroup]:
    """Measure the groups with the largest weights (T), as many as the budget allows.

    If groups have several inputs, half of the budget is kept for splitting those that are worth most. What no split can
    use goes to the next groups.
    """
    waiting = sorted(groups, key=lambda group: -float(weights[list(group)].sum()))
    every: list[MeasuredGroup] = []  # also parts
    left = budget

    def take(chosen: list[Positions]) -> list[MeasuredGroup]:
        nonlocal left
        left -= len(chosen)
        found = [MeasuredGroup(*pair) for pair in zip(chosen, measure(chosen), strict=True)]
        every.extend(found)
        return found

    def take_next(count: int) -> list[MeasuredGroup]:
        chosen = waiting[:count]
        del waiting[:count]
        return take(chosen)

    whole = take_next(budget if all(len(group) == 1 for group in groups) else max(1, budget // 2))
    while left:
        candidates = [group for group in every if len(group.positions) > 1 and not group.parts and group.worth > 0]
        if chosen := _affordable(sorted(candidates, key=lambda group: -group.worth), split, left):
            parts = iter(take([part for _, these in chosen for part in these]))
            for group, these in chosen:
                group.parts = [next(parts) for _ in these]
        elif waiting:
            whole += take_next(left)
        else:
            break
    return whole


def _affordable(
    candidates: Sequence[MeasuredGroup], split: Callable[[Positions], list[Positions]], left: int
) -> list[tuple[MeasuredGroup, list[Positions]]]:
    """The first candidates whose parts need half of the remaining budget, or at least one candidate if it fits."""
    chosen: list[tuple[MeasuredGroup, list[Positions]]] = []
    spent = 0
    for group in candidates:
        parts = split(group.positions)
        if spent + len(parts) <= (left if not chosen else left // 2):
            chosen.append((group, parts))
            spent += len(parts)
    return chosen


def worth_of_inputs(groups: Sequence[MeasuredGroup], weights: np.ndarray) -> dict[int, float]:
    """What each measured input is worth. A group's worth is divided by weight; so is what it is worth beyond its parts,
    which stand in for each other while they are hidden singly."""
    found: dict[int, float] = {}
    for group in groups:
        shared = group.worth
        if group.parts:
            shared = max(0.0, group.worth - sum(max(0.0, part.worth) for part in group.parts))
        found |= worth_of_inputs(group.parts, weights)
        for position, share in zip(group.positions, _shares(weights[list(group.positions)]), strict=True):
            found[position] = found.get(position, 0.0) + shared * share
    return found


def _shares(weights: np.ndarray) -> Iterator[float]:
    total = float(weights.sum())
    yield from (weights / total if total else np.full(len(weights), 1 / len(weights))).tolist()
