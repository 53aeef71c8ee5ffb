"""Scores of one method, for studies that compare rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..methods.registry import find_method, run_method
from ..methods.session import TraceSession
from ..types import Target

COMPARED_METHODS = (
    "vtrace", "vtrace-ordered", "ifr", "flashtrace", "flowtracer", "attnlrp", "rollout", "random",
)  # fmt: skip


def method_scores(name: str, session: TraceSession, target: Target, seed: int) -> np.ndarray:
    """T: the scores of a method with its default options, calibrated as in the paper."""
    own: dict[str, Any] = {"seed": seed, "calibrate_on": "response"}
    known = find_method(name).options
    return run_method(name, session, target, **{key: value for key, value in own.items() if key in known}).scores
