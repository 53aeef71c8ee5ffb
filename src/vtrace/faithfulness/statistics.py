"""Means with paired bootstrap intervals, and wins, ties and losses. Items are the unit that is resampled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

DRAWS = 10_000
TIE = 1e-9


@dataclass(frozen=True)
class Summary:
    """One method in one cell of a table."""

    mean: float
    low: float  # 95 % interval of the mean
    high: float
    difference: float | None = None  # from the reference method, item by item
    difference_low: float | None = None
    difference_high: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0


def summarise(
    values: dict[str, np.ndarray], reference: str | None, higher_is_better: bool, seed: int = 0, draws: int = DRAWS
) -> dict[str, Summary]:
    """Summaries of methods measured on the same items, one array of equal length each.

    All methods are resampled with the same draws, so that differences are paired.
    """
    table = np.stack(list(values.values()))  # methods, items
    count = table.shape[1]
    if not count:
        return {}
    rng = np.random.default_rng(seed)
    means = np.empty((draws, len(table)))
    for start in range(0, draws, 500):
        chosen = rng.integers(0, count, (min(500, draws - start), count))
        means[start : start + len(chosen)] = table[:, chosen].mean(axis=2).T
    names = list(values)
    against = names.index(reference) if reference in names else None
    found = {}
    for k, name in enumerate(names):
        low, high = np.quantile(means[:, k], (0.025, 0.975))
        summary = Summary(float(table[k].mean()), float(low), float(high))
        if against is not None and k != against:
            apart = table[k] - table[against]
            low, high = np.quantile(means[:, k] - means[:, against], (0.025, 0.975))
            better = apart if higher_is_better else -apart
            wins, losses = int((better > TIE).sum()), int((better < -TIE).sum())
            summary = replace(
                summary,
                difference=float(apart.mean()),
                difference_low=float(low),
                difference_high=float(high),
                wins=wins,
                ties=count - wins - losses,
                losses=losses,
            )
        found[name] = summary
    return found
