"""Which likelihood calibration should measure: the paper leaves this open."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_study import Variant, VariantStudy

CALIBRATION_STUDY = VariantStudy(
    "calibration",
    STUDY_SUBJECTS["calibration"],
    {
        "on the response": Variant("vtrace"),
        "on the target": Variant("vtrace", {"calibrate_on": "target"}),
        "off": Variant("vtrace", {"calibrate": False}),
    },
)
