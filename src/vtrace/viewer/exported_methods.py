"""The numbers of every method on the page: a matrix if it has one, otherwise scores."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import Tensor

from ..attribution.result import Attribution
from ..types import Target
from .quantise import BUDGET, EncodedTriangle, choose_depth, encode_triangle


class TargetEntry(TypedDict):
    """A target: its name and positions."""

    name: str
    positions: list[int]


class FixedScores(TargetEntry):
    """Scores for one target, for a method that the page cannot recompute."""

    scores: str  # float64 in base64
    calibration: dict[str, Any]


class MethodEntry(TypedDict):
    """One method with one set of options."""

    method: str
    label: str
    options: dict[str, str | int | float | bool]
    likelihoods: list[list[float | None]] | None
    matrix: int | None  # index in the list of matrices
    exported: list[FixedScores]


class ExportedMethods(NamedTuple):
    """Methods and the matrices that they use."""

    methods: list[MethodEntry]
    matrices: list[EncodedTriangle]


def export_methods(results: Sequence[Attribution]) -> ExportedMethods:
    """One entry per method and set of options; matrices that several share are written once."""
    entries: dict[str, MethodEntry] = {}
    tensors: list[Tensor] = []
    for result in results:
        key = f"{result.method} {sorted(result.options.items())}"
        entry = entries.setdefault(key, _method(result))
        if result.pairwise is None:
            entry["exported"].append(_fixed(result))
        else:
            entry["matrix"] = index_of_matrix(tensors, result.pairwise)
    depth = choose_depth(sum(len(tensor) * (len(tensor) - 1) // 2 for tensor in tensors), BUDGET)
    return ExportedMethods(_labelled(list(entries.values())), [encode_triangle(tensor, depth) for tensor in tensors])


def target_entry(target: Target) -> TargetEntry:
    return {"name": target.name, "positions": list(target.positions)}


def index_of_matrix(tensors: list[Tensor], pairwise: Tensor) -> int:
    """Index of the matrix in the list; it is added if it is new."""
    for place, known in enumerate(tensors):
        if known is pairwise or known.equal(pairwise):
            return place
    tensors.append(pairwise)
    return len(tensors) - 1


def _method(result: Attribution) -> MethodEntry:
    likelihoods = result.likelihoods
    return {
        "method": result.method,
        "label": result.method,
        "options": {key: value for key, value in result.options.items() if isinstance(value, str | int | float | bool)},
        "likelihoods": None if likelihoods is None else [[_finite(float(v)) for v in row] for row in likelihoods],
        "matrix": None,
        "exported": [],
    }


def _labelled(entries: list[MethodEntry]) -> list[MethodEntry]:
    """Label a method that ran more than once by the options in which it differs."""
    for entry in entries:
        twins = [other for other in entries if other["method"] == entry["method"]]
        different = [k for k, v in entry["options"].items() if any(other["options"].get(k) != v for other in twins)]
        if chosen := ", ".join(f"{key} {entry['options'][key]}" for key in different):
            entry["label"] = f"{entry['method']} ({chosen})"
    return entries


def _fixed(result: Attribution) -> FixedScores:
    calibration = {key: _finite(value) for key, value in dataclasses.asdict(result.calibration).items()}
    scores = base64.b64encode(result.scores.astype("<f8").tobytes()).decode("ascii")
    return {**target_entry(result.target), "scores": scores, "calibration": calibration}


def _finite(value: Any) -> Any:
    """None for infinite values, which JSON does not have."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
