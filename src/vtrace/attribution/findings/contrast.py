"""Why this answer and not that one: signed evidence for the difference of two likelihoods."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...system.typed_json import as_typed, typed_fields

ARRAYS = ("scores", "evidence", "counter_evidence")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Evidence for what the response says against an alternative after the same reasoning.

    Scores cover the positions of the frozen trace, and are zero from the first token on that differs. Positive ones
    speak for what the response says, negative ones for the alternative; over image and question positions their
    absolute values sum to one. `evidence` and `counter_evidence` are what each position adds to the one and to the
    other, on the same scale: their difference is `scores`.
    """

    answer: str
    against: str
    method: str
    scores: np.ndarray  # T
    evidence: np.ndarray  # T
    counter_evidence: np.ndarray  # T
    log_likelihood: float  # of what the response says, in nats
    against_log_likelihood: float


def contrast_of(
    answer: str,
    against: str,
    method: str,
    evidence: np.ndarray,
    counter_evidence: np.ndarray,
    log_likelihoods: tuple[float, float],
    inputs: list[int],
) -> Contrast:
    """Put both on one scale. Exchanging the two answers changes the sign of every score and nothing else."""
    scores = evidence - counter_evidence
    total = float(np.abs(scores[inputs]).sum()) or 1.0
    return Contrast(
        answer, against, method, scores / total, evidence / total, counter_evidence / total, *log_likelihoods
    )


def contrast_document(contrast: Contrast) -> dict[str, Any]:
    """Every field under its own name."""
    fields = {field.name: getattr(contrast, field.name) for field in dataclasses.fields(contrast)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def read_contrast(document: dict[str, Any], length: int) -> Contrast:
    """The contrast on a trace of this length; raises ValueError for a damaged one."""
    fields = typed_fields(Contrast, document, "contrast", without=ARRAYS)
    arrays = {name: np.array(as_typed(tuple[float, ...], document[name], f"contrast.{name}")) for name in ARRAYS}
    if any(len(values) != length or not np.isfinite(values).all() for values in arrays.values()):
        raise ValueError("the contrast does not fit the trace")
    return Contrast(**(fields | arrays))
