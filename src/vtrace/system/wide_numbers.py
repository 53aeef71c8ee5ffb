"""Float64, which sums over paths need: on the device itself, or on the CPU where a device has none, as Apple's."""

from __future__ import annotations

import torch
from torch import Tensor

_HAVE_FLOAT64 = ("cpu", "cuda", "meta")


def wide_device(device: torch.device) -> torch.device:
    """Where float64 numbers that belong to a device are kept."""
    return device if device.type in _HAVE_FLOAT64 else torch.device("cpu")


def wide(numbers: Tensor) -> Tensor:
    """The same numbers in float64."""
    return numbers.to(wide_device(numbers.device)).double()
