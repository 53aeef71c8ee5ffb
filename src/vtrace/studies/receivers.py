"""Where a target is read: the paper leaves this open."""

from __future__ import annotations

from .variant_study import Variant, VariantStudy

RECEIVERS_STUDY = VariantStudy(
    "receivers",
    "reading the target at its predictors or at its own tokens",
    {"predictors": Variant("vtrace"), "tokens": Variant("vtrace", {"receivers": "token"})},
)
