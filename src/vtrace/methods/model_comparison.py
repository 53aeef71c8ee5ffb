"""Two models on one frozen trace, such as one before and after training: two rankings, and what moved between them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..attribution.result import RankedInput
from ..errors import InputError
from .comparison import Comparison


class Move(NamedTuple):
    """A patch or word, and its share of the scores by two models."""

    item: RankedInput  # as the first model ranks it
    before: float
    after: float
    rank_before: int  # from 1
    rank_after: int

    @property
    def change(self) -> float:
        return self.after - self.before


def join_models(first: Comparison, second: Comparison, names: tuple[str, str]) -> Comparison:
    """One method's results of two models on the same trace and target, as a comparison with the models' names."""
    if first.trace.ids != second.trace.ids or first.target != second.target:
        raise InputError("the models were not compared on the same response and target")
    (method,) = first.results
    one, two = names if names[0] != names[1] else (names[0], f"{names[1]} (again)")
    return Comparison(
        first.trace,
        first.target,
        {one: replace(first[method], method=one), two: replace(second[method], method=two)},
        {one: first.costs[method], two: second.costs[method]},
        {},
        "model",
    )


def moves(comparison: Comparison) -> list[Move]:
    """Every patch and question word, the largest change of share first."""
    before, after = comparison.results.values()
    later = {_place(item): (rank, item.score) for rank, item in enumerate(after.ranking(), start=1)}
    found = []
    for rank, item in enumerate(before.ranking(), start=1):
        new_rank, score = later[_place(item)]
        found.append(Move(item, item.score, score, rank, new_rank))
    return sorted(found, key=lambda move: -abs(move.change))


def _place(item: RankedInput) -> tuple[int, ...]:
    return tuple(item.positions)
