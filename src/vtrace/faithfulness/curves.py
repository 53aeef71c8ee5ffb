"""RISE and MAS: areas under insertion and deletion curves, exactly as in the paper. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

CURVE_STEPS = 20
FLAT = 1e-8  # if perturbing everything lowers the likelihood by less, there is no curve
Mode = Literal["insertion", "deletion"]
MODES: tuple[Mode, ...] = ("insertion", "deletion")


@dataclass(frozen=True)
class Curve:
    """One perturbation curve and the areas under it."""

    rise: float
    mas: float
    response: tuple[float, ...]  # r: normalised, monotone, one value per step from 0 to K
    mass: tuple[float, ...]  # m: share of |u| restored, or left
    degenerate: bool  # perturbing everything does not lower the likelihood: a ramp replaces the curve
    unranked: bool  # all scores are zero: inputs are ranked by position, m is a straight line


def ranked(scores: np.ndarray, positions: Sequence[int]) -> list[int]:
    """Positions by decreasing |u|; equal scores are ranked by position."""
    size = np.abs(scores[list(positions)])
    return [positions[k] for k in np.argsort(-size, kind="stable")]


def groups_of(order: Sequence[int], steps: int = CURVE_STEPS) -> list[list[int]]:
    """K = min(steps, P) contiguous groups, the first P mod K of them one larger."""
    count = min(steps, len(order))
    return [part.tolist() for part in np.array_split(np.asarray(order, dtype=int), count)] if count else []


def states_of(groups: Sequence[Sequence[int]], mode: Mode) -> list[frozenset[int]]:
    """What is perturbed at step 0 … K. Deletion starts with nothing, insertion with everything."""
    states = [frozenset(p for group in groups[:k] for p in group) for k in range(len(groups) + 1)]
    return states if mode == "deletion" else [states[-1] - state for state in states]


def mass_of(scores: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray | None:
    """Share of all |u| in the first k groups, k = 0 … K; None if all scores are zero."""
    parts = np.array([np.abs(scores[list(group)]).sum() for group in groups])
    return np.concatenate([[0.0], np.cumsum(parts) / parts.sum()]) if parts.sum() > 0 else None


def curve_of(likelihoods: Sequence[float], mass: np.ndarray | None, mode: Mode) -> Curve:
    """Areas for the likelihoods of step 0 … K and the mass of `mass_of`."""
    values = np.asarray(likelihoods, dtype=np.float64)
    restored = np.linspace(0, 1, len(values)) if mass is None else mass
    clean, perturbed = (values[0], values[-1]) if mode == "deletion" else (values[-1], values[0])
    degenerate = not clean - perturbed > FLAT
    if degenerate:
        response = np.linspace(0, 1, len(values))
        response = 1 - response if mode == "deletion" else response
    else:
        response = np.clip((values - perturbed) / (clean - perturbed), 0, 1)
        keep = np.minimum if mode == "deletion" else np.maximum
        response = keep.accumulate(response)
    held = 1 - restored if mode == "deletion" else restored
    mismatch = np.abs(response - held)
    aligned = np.clip(response + mismatch if mode == "deletion" else response - mismatch, 0, 1)
    return Curve(area(response), area(aligned), tuple(response), tuple(held), degenerate, mass is None)


def is_settled(likelihoods: Sequence[float], mode: Mode) -> bool:
    """Whether steps between the last two of these likelihoods cannot change the curve: it is flat, or its running
    minimum or maximum has already reached the end value."""
    *before, end = likelihoods
    if mode == "deletion":
        return not before[0] - end > FLAT or min(before) <= end
    return not end - before[0] > FLAT or max(before) >= end


def area(values: np.ndarray) -> float:
    """Trapezoidal rule over steps of equal width, from 0 to 1; not a number if there is nothing to perturb."""
    if len(values) < 2:
        return float("nan")
    return float((values[:-1] + values[1:]).sum() / (2 * (len(values) - 1)))
