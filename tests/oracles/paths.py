"""Every path through a small matrix, one by one: what routes and passages claim to sum and to rank."""

from __future__ import annotations

import itertools

import numpy as np

Path = tuple[int, ...]


def all_paths(hat: np.ndarray, source: int, receivers: list[int]) -> dict[Path, float]:
    """Positions of every path from a source to a receiver, and the product of its edges. `hat` is γŴ."""
    found = {}
    for receiver in receivers:
        inner = range(source + 1, receiver)
        for size in range(receiver - source):
            for between in itertools.combinations(inner, size):
                path = (source, *between, receiver)
                found[path] = float(np.prod([hat[a, b] for a, b in itertools.pairwise(path)]))
    return {path: product for path, product in found.items() if product > 0}


def inflow(hat: np.ndarray) -> np.ndarray:
    """Sum over all paths that end at each position."""
    return np.array(
        [
            sum(sum(all_paths(hat, source, [position]).values()) for source in range(position))
            for position in range(len(hat))
        ]
    )


def credits(hat: np.ndarray, sources: list[int], receivers: list[int]) -> dict[Path, float]:
    """Every path from the sources to the receivers, weighted as the score weighs its source: (1 + In) · product."""
    weight = 1 + inflow(hat)
    return {
        path: weight[source] * product
        for source in sources
        for path, product in all_paths(hat, source, receivers).items()
    }


def passage(credit: dict[Path, float], word: range) -> float:
    """Share of the credit whose paths visit any position of the word between their ends."""
    through = sum(value for path, value in credit.items() if set(path[1:-1]) & set(word))
    return through / (sum(credit.values()) or 1.0)
