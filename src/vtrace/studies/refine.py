"""Refining by measurement: how many inputs to hide, which ranking to start from, and whose likelihood to measure.

Perturbation curves measure the likelihood of the whole response, whatever the target. A ranking that is refined on the
response is therefore measured by what it was made with, only one input at a time instead of in growing sets.
"""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_study import Variant, VariantStudy

REFINE_STUDY = VariantStudy(
    "refine",
    STUDY_SUBJECTS["refine"],
    {
        "VTrace": Variant("vtrace"),
        "VTrace, 8": Variant("vtrace-refined", {"budget": 8}),
        "VTrace, 16": Variant("vtrace-refined"),
        "VTrace, 32": Variant("vtrace-refined", {"budget": 32}),
        "VTrace, 64": Variant("vtrace-refined", {"budget": 64}),
        "VTrace, 25 %": Variant("vtrace-refined", {"share": 0.25}),
        "VTrace, 16 on the target": Variant("vtrace-refined", {"measured_on": "target"}),
        "ordered": Variant("vtrace-ordered"),
        "ordered, 16": Variant("vtrace-ordered-refined"),
        "ordered, 32": Variant("vtrace-ordered-refined", {"budget": 32}),
        "AttnLRP": Variant("attnlrp"),
        "AttnLRP, 16": Variant("attnlrp-refined"),
        "random, 16": Variant("random-refined"),
        "leave-one-out": Variant("loo"),
    },
    limit=24,
)
