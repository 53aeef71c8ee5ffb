"""Which likelihood calibration should measure: the paper leaves this open."""

from __future__ import annotations

from .variant_study import Variant, VariantStudy

CALIBRATION_STUDY = VariantStudy(
    "calibration",
    "calibrating on the whole response or on the target",
    {
        "on the response": Variant("vtrace"),
        "on the target": Variant("vtrace", {"calibrate_on": "target"}),
        "off": Variant("vtrace", {"calibrate": False}),
    },
)
