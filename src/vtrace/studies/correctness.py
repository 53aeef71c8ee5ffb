"""Whether attributions are as faithful on incorrect answers as on correct ones."""

from __future__ import annotations

from .curves import VTRACE_AND_BASELINES
from .variant_study import VariantStudy

CORRECTNESS_STUDY = VariantStudy(
    "correctness",
    "faithfulness on correct and on incorrect answers, half of the examples each",
    VTRACE_AND_BASELINES,
    subsets=("correct", "incorrect"),
)
