"""The family that a user asks for, known in an instant: PyTorch is not needed for it."""

from __future__ import annotations

from typing import Literal

from ..errors import ModelError

PROBE: Literal["auto"] = "auto"  # find out by probing


def find_family(name: str | None) -> Literal["auto"] | None:
    """A family by name; None, that of the checkpoint, for an empty one."""
    if name and name != PROBE:
        raise ModelError(f"unknown family {name!r}; use {PROBE}, or leave it out for the family of the checkpoint")
    return PROBE if name else None
