"""All studies: the paper's ablations and figures, and our own."""

from __future__ import annotations

from typing import Any

from .blur import BLUR_STUDY
from .budget import BUDGET_STUDY
from .calibration import CALIBRATION_STUDY
from .catalogue import check_study
from .components import COMPONENTS_STUDY
from .correctness import CORRECTNESS_STUDY
from .credit import CREDIT_STUDY
from .curves import CURVES_STUDY
from .efficiency import EFFICIENCY_STUDY
from .gamma import GAMMA_STUDY
from .hops import HOPS_STUDY
from .ordered import ORDERED_STUDY
from .receivers import RECEIVERS_STUDY
from .refine import REFINE_STUDY
from .sanity import SANITY_STUDY
from .study import Study
from .verify import VERIFY_STUDY

_ALL: tuple[Study[Any], ...] = (
    COMPONENTS_STUDY,
    GAMMA_STUDY,
    HOPS_STUDY,
    CURVES_STUDY,
    CORRECTNESS_STUDY,
    RECEIVERS_STUDY,
    CALIBRATION_STUDY,
    ORDERED_STUDY,
    REFINE_STUDY,
    BUDGET_STUDY,
    CREDIT_STUDY,
    BLUR_STUDY,
    EFFICIENCY_STUDY,
    VERIFY_STUDY,
    SANITY_STUDY,
)
STUDIES: dict[str, Study[Any]] = {study.name: study for study in _ALL}


def find_study(name: str) -> Study[Any]:
    if name not in STUDIES:
        check_study(name)
    return STUDIES[name]
