"""Where a target is read: the paper leaves this open."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_study import Variant, VariantStudy

RECEIVERS_STUDY = VariantStudy(
    "receivers",
    STUDY_SUBJECTS["receivers"],
    {"predictors": Variant("vtrace"), "tokens": Variant("vtrace", {"receivers": "token"})},
)
