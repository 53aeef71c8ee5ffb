"""Mean perturbation curves: how the likelihood of the response falls and recovers."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_plots import MeanCurves
from .variant_study import Variant, VariantStudy

BASELINES = ("rollout", "ifr", "flashtrace", "flowtracer", "attnlrp", "random")
VTRACE_AND_BASELINES = {"VTrace": Variant("vtrace"), **{name: Variant(name) for name in BASELINES}}

CURVES_STUDY = VariantStudy("curves", STUDY_SUBJECTS["curves"], VTRACE_AND_BASELINES, MeanCurves())
