"""Names of devices, known in an instant: PyTorch is not needed for them."""

from __future__ import annotations

import sys
from typing import Literal, get_args

from ..errors import ModelError

Spread = Literal["auto", "balanced", "sequential"]  # over all devices, by accelerate
SPREADS: tuple[Spread, ...] = get_args(Spread)
TENSOR_PARALLEL = "tensor-parallel"  # split over the processes of `torchrun`
_KINDS = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "xla")  # of PyTorch; a number may follow, as in cuda:1


def check_device(name: str) -> None:
    """Refuse what no PyTorch knows."""
    kind, colon, number = name.partition(":")
    if name in (*SPREADS, TENSOR_PARALLEL):
        return
    if not (kind in _KINDS or _has_plugins()) or (colon and not number.isdecimal()):
        raise unknown_device(name)


def _has_plugins() -> bool:
    """Whether PyTorch has plugins, which bring devices of their own."""
    from importlib.metadata import entry_points  # slow, and hardly ever needed

    return bool(entry_points(group="torch.backends"))


def check_device_here(name: str) -> None:
    """Refuse what this machine cannot have, as far as that is known without PyTorch: from its version, for example."""
    kind = name.partition(":")[0]
    if kind == "mps" and sys.platform != "darwin":
        raise unusable_device(name, "it is part of a Mac")
    if kind in ("cuda", "xpu"):
        from importlib.metadata import version  # slow, and needed for these alone

        if (installed := version("torch")).endswith("+cpu"):
            raise unusable_device(name, f"PyTorch {installed} was built for the CPU alone")


def unusable_device(name: str, reason: str) -> ModelError:
    return ModelError(f"cannot use device {name!r}: {reason}; try --device cpu")


def unknown_device(name: str) -> ModelError:
    return ModelError(
        f"unknown device {name!r}; use cpu, cuda, cuda:1, mps, another device of PyTorch, or auto for all GPUs"
    )
