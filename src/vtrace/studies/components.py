"""What each stage of VTrace contributes: one is removed at a time."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_study import Variant, VariantStudy

COMPONENTS_STUDY = VariantStudy(
    "components",
    STUDY_SUBJECTS["components"],
    {
        "VTrace": Variant("vtrace"),
        "no centring": Variant("vtrace", {"centring": False}),
        "no multi-hop": Variant("vtrace", {"multihop": False}),
        "no calibration": Variant("vtrace", {"calibrate": False}),
    },
)
