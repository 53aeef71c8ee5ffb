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
    """T: the scores of a method with its default options."""
    options: dict[str, Any] = {"seed": seed} if "seed" in find_method(name).options else {}
    return run_method(name, session, target, **options).scores
