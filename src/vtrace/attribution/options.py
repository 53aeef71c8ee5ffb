"""Everything that changes a VTrace score. The defaults are the paper's, except `calibrate_on`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from ..errors import InputError
from ..system.option_check import check_option
from ..types import ReadAt

CalibrateOn = Literal["response", "target"]


@dataclass(frozen=True)
class Options:
    """Options of the method, checked when they are set.

    Args:
        gamma: weight of every edge of a path; 1 in the paper, and 0 makes all scores zero.
        centring: subtract the mean write within image and question positions (stage 1).
        multihop: sum indirect paths (stage 2); without it, scores are the direct edges.
        hops: longest path that counts on either side of a token; 0 for all.
        calibrate: put image and text on one scale (stage 3).
        calibrate_on: whose likelihood the calibration measures: that of the target, so that the image share says what
            the image is worth to it, or, as in the paper, that of the whole response whatever the target.
        receivers: where the target is read.
    """

    gamma: float = 1.0
    centring: bool = True
    multihop: bool = True
    hops: int = 0
    calibrate: bool = True
    calibrate_on: CalibrateOn = "target"
    receivers: ReadAt = "predictor"

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            check_option(field.name, getattr(self, field.name), kinds[field.name])
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise InputError(f"gamma is {self.gamma}; it must be zero or positive")
        object.__setattr__(self, "gamma", float(self.gamma))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from a mapping; an unknown name is an error that lists the known ones."""
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := set(given) - set(names):
            raise InputError(f"unknown option {sorted(unknown)[0]!r}; use one of: {', '.join(names)}")
        return cls(**given)
