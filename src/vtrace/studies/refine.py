"""Refining by measurement: how many inputs, starting from which ranking, hidden or also shown alone, and whose
likelihood to measure.

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
        "VTrace, 16": Variant("vtrace-refined", {"budget": 16}),
        "VTrace, 32": Variant("vtrace-refined"),
        "VTrace, 64": Variant("vtrace-refined", {"budget": 64}),
        "VTrace, 25 %": Variant("vtrace-refined", {"share": 0.25}),
        "VTrace, 32 on the target": Variant("vtrace-refined", {"measured_on": "target"}),
        "VTrace, 32 both sides": Variant("vtrace-refined", {"sides": "both"}),
        "ordered": Variant("vtrace-ordered"),
        "ordered, 16": Variant("vtrace-ordered-refined", {"budget": 16}),
        "ordered, 32": Variant("vtrace-ordered-refined"),
        "ordered, 16 both sides": Variant("vtrace-ordered-refined", {"budget": 16, "sides": "both"}),
        "ordered, 32 both sides": Variant("vtrace-ordered-refined", {"sides": "both"}),
        "AttnLRP": Variant("attnlrp"),
        "AttnLRP, 32": Variant("attnlrp-refined"),
        "random, 32": Variant("random-refined"),
        "leave-one-out": Variant("loo"),
    },
    limit=24,
)
