"""Scores of any method as shares of all image and question scores, calibrated by stage 3 on request."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..types import Calibration, Target, Trace
from .calibrate import Likelihoods, calibrate
from .options import CalibrateOn


class Shares(NamedTuple):
    """Scores that sum to one over the inputs, the logarithm of what they were divided by, and how they were scaled."""

    scores: np.ndarray  # T
    log_scale: float
    calibration: Calibration


def calibrated_tokens(trace: Trace, target: Target, likelihoods: np.ndarray, on: CalibrateOn) -> np.ndarray:
    """log p (4,n) of the tokens that calibration measures: those of the target, or the whole response."""
    return likelihoods[:, [p - trace.prompt_length for p in target.positions]] if on == "target" else likelihoods


def to_shares(trace: Trace, raw: np.ndarray, likelihoods: np.ndarray | None, calibrated: bool) -> Shares:
    """Divide scores (T) by the sum of their absolute values over image and question; calibrate first on request.

    `likelihoods` are log p of the tokens to calibrate on: clean, image, text, both padded (4,n).
    """
    image, text = trace.positions("image"), trace.positions("question")
    sums = float(np.abs(raw[image]).sum()), float(np.abs(raw[text]).sum())
    totals = None if likelihoods is None else Likelihoods(*map(float, likelihoods.sum(axis=1)))
    calibration = calibrate(totals if calibrated else None, *sums)
    if calibrated and not image:
        calibration = Calibration("skipped: there is no picture to compare the text with")
    scaled = raw.copy()
    scaled[image] *= calibration.scale
    total = float(np.abs(scaled[image + text]).sum()) or 1.0
    return Shares(scaled / total, math.log(total), calibration)


class RelativeScores(NamedTuple):
    """Scores as multiples of the strongest input, and the logarithm of that input."""

    values: np.ndarray  # T
    log_strongest: float


def relative_to_inputs(logs: np.ndarray, inputs: list[int]) -> RelativeScores:
    """Convert logarithms (T), which can exceed the range of floats, to scores."""
    top = logs[inputs].max() if inputs else -math.inf
    top = float(top) if math.isfinite(top) else 0.0
    with np.errstate(over="ignore"):
        raw = np.exp(logs - top)
    # A response token can outweigh every input by more than the range of floats.
    return RelativeScores(np.nan_to_num(raw, nan=np.nan, posinf=np.finfo(np.float64).max), top)
