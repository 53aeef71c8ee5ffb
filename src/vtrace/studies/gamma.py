"""The weight γ of longer paths, from direct edges alone to the paper's sum over all paths."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_plots import ParameterLines, PlacedVariant
from .variant_study import Variant, VariantStudy

GAMMAS = (0.1, 0.25, 0.5, 0.75, 1.0)


def _label(series: str, gamma: float) -> str:
    return f"{series}, γ = {gamma:g}"


_METHODS = {"VTrace": "vtrace", "IFR + multi-hop": "ifr-multihop"}
_DIRECT = {"VTrace": "VTrace, direct", "IFR + multi-hop": "IFR"}  # without longer paths at all: γ = 0

GAMMA_STUDY = VariantStudy(
    "gamma",
    STUDY_SUBJECTS["gamma"],
    {
        **{_label(s, gamma): Variant(method, {"gamma": gamma}) for s, method in _METHODS.items() for gamma in GAMMAS},
        "VTrace, direct": Variant("vtrace", {"multihop": False}),
        "IFR": Variant("ifr"),
    },
    ParameterLines(
        "γ",
        {
            series: [
                PlacedVariant(0.0, _DIRECT[series]),
                *(PlacedVariant(gamma, _label(series, gamma)) for gamma in GAMMAS),
            ]
            for series in _METHODS
        },
    ),
)
