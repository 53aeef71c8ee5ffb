"""How many edges the paths into and out of a source may have."""

from __future__ import annotations

from .catalogue import STUDY_SUBJECTS
from .variant_plots import ParameterLines, PlacedVariant
from .variant_study import Variant, VariantStudy

HOP_COUNTS = (1, 2, 4, 8)
_LABELS = {hops: f"{hops} hop{'s' if hops > 1 else ''} each way" for hops in HOP_COUNTS}
_PLACES = [*_LABELS.values(), "all paths"]

HOPS_STUDY = VariantStudy(
    "hops",
    STUDY_SUBJECTS["hops"],
    {
        **{label: Variant("vtrace", {"hops": hops}) for hops, label in _LABELS.items()},
        "all paths": Variant("vtrace"),
        "direct edges": Variant("vtrace", {"multihop": False}),
    },
    ParameterLines(
        "hops",
        {"VTrace": [PlacedVariant(float(place), label) for place, label in enumerate(_PLACES)]},
        {float(place): name for place, name in enumerate([*map(str, HOP_COUNTS), "all"])},
    ),
)
