"""Our own variant, which composes writes in the order of layers, and its choices."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_study import Variant, VariantStudy

ORDERED_STUDY = VariantStudy(
    "ordered",
    STUDY_SUBJECTS["ordered"],
    {
        "VTrace": Variant("vtrace"),
        "ordered": Variant("vtrace-ordered"),
        "ordered, whole residual": Variant("vtrace-ordered", {"relative": False}),
        "ordered, columns": Variant("vtrace-ordered", {"normalise": "columns"}),
        "ordered, own stream": Variant("vtrace-ordered", {"own": True}),
        "ordered, no centring": Variant("vtrace-ordered", {"centring": False}),
        "ordered, calibrated": Variant("vtrace-ordered"),
        "IFR": Variant("ifr"),
        "IFR + multi-hop": Variant("ifr-multihop"),
    },
    calibrated=("ordered, calibrated",),
)
