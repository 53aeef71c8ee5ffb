"""Whether attributions are as faithful on incorrect answers as on correct ones."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .curves import VTRACE_AND_BASELINES
from .variant_study import VariantStudy

CORRECTNESS_STUDY = VariantStudy(
    "correctness",
    STUDY_SUBJECTS["correctness"],
    VTRACE_AND_BASELINES,
    subsets=("correct", "incorrect"),
)
