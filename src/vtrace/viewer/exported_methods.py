"""The numbers of every method on the page: a matrix if it has one, otherwise scores."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import Tensor

from ..attribution.result import Attribution
from ..attribution.triangle import LARGEST_SAVED
from ..errors import InputError
from ..tracing.targets import find_target
from ..types import Target, Trace
from .quantise import BUDGET, EncodedTriangle, choose_depth, encode_triangle, left_out_note

ROWS_BUDGET = 4_000_000  # bytes of the scores that replace a matrix, before base64
BESIDE_BUDGET = 200_000  # bytes of the scores of a method beside a matrix, as 32-bit numbers


class TargetEntry(TypedDict):
    """A target: its name and positions."""

    name: str
    positions: list[int]


class FixedScores(TargetEntry):
    """Scores for one target, for a method that the page cannot recompute."""

    scores: str  # floats in base64
    bits: int  # of each: 32 or 64
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
    """Methods, the matrices that they use, and what was left out."""

    methods: list[MethodEntry]
    matrices: list[EncodedTriangle]
    left_out: list[str]


def export_methods(results: Sequence[Attribution]) -> ExportedMethods:
    """One entry per method and set of options; matrices that several share are written once.

    A matrix too large for a page is replaced by scores for as many targets as fit.
    """
    entries: dict[str, MethodEntry] = {}
    tensors: list[Tensor] = []
    left_out: list[str] = []
    for result in results:
        key = f"{result.method} {sorted(result.options.items())}"
        entry = entries.setdefault(key, _method(result))
        if result.pairwise is None:
            entry["exported"].append(_fixed(result, 64))
        elif len(result.pairwise) > LARGEST_SAVED:
            scored = result.retarget_all(fitting_targets(result.trace, result.target, ROWS_BUDGET))
            entry["exported"].extend(_fixed(one, 32) for one in scored)
            left_out.append(
                f"{left_out_note(len(result.pairwise))} This page has the scores of {len(scored)} targets: the parts "
                "and sentences of the response, then single words in order. Other targets, paths, γ and path length "
                "need Python."
            )
        else:
            entry["matrix"] = index_of_matrix(tensors, result.pairwise.dense())
    depth = choose_depth(sum(len(tensor) * (len(tensor) - 1) // 2 for tensor in tensors), BUDGET)
    encoded = [encode_triangle(tensor, depth) for tensor in tensors]
    return ExportedMethods(_labelled(list(entries.values())), encoded, list(dict.fromkeys(left_out)))


def fitting_targets(trace: Trace, first: Target, room: int) -> list[Target]:
    """A target, all named ones, and then words of the response, as many as there is room for, in bytes."""
    said = [word for word in trace.words if word.kind == "response"]
    words = [Target(word.text, tuple(range(word.start, word.stop))) for word in said]
    different: dict[tuple[int, ...], Target] = {}
    for target in (first, *named_targets(trace), *words):
        different.setdefault(target.positions, target)
    return list(different.values())[: max(1, room // (4 * len(trace)))]


def named_targets(trace: Trace) -> list[Target]:
    """The whole response, its parts, and its sentences."""
    names = ["response", "reasoning", "answer", *(f"sentence {k + 1}" for k in range(len(trace.sentences)))]
    found = []
    for name in names:
        with suppress(InputError):  # a response without an answer, or without reasoning
            found.append(find_target(trace, name))
    return found


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


def _fixed(result: Attribution, bits: int) -> FixedScores:
    calibration = {key: _finite(value) for key, value in dataclasses.asdict(result.calibration).items()}
    scores = base64.b64encode(result.scores.astype(f"<f{bits // 8}").tobytes()).decode("ascii")
    return {**target_entry(result.target), "scores": scores, "bits": bits, "calibration": calibration}


def _finite(value: Any) -> Any:
    """None for infinite values, which JSON does not have."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
