"""Scores that can be negative: what is ranked, while the signed copy is kept."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .choices import Sign
from .work import Outcome


def signed_as(sign: Sign, scores: Tensor, details: dict[str, Any] | None = None) -> Outcome:
    """`sign` "positive" drops what speaks against the target, "absolute" counts it, "signed" leaves it."""
    forms = {"positive": scores.clamp_min(0), "absolute": scores.abs(), "signed": scores}
    return Outcome(forms[sign], {**(details or {}), "signed": scores.tolist()})
