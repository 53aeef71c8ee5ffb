"""Names of dtypes, known in an instant: PyTorch is not needed for them."""

from __future__ import annotations

from typing import Literal, get_args

from ..errors import ModelError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


def find_dtype(name: str) -> Dtype | None:
    """A dtype by name; None, the default, for an empty one."""
    found = next((dtype for dtype in DTYPES if dtype == name), None)
    if name and found is None:
        raise ModelError(f"unknown dtype {name!r}; use one of: {', '.join(DTYPES)}")
    return found
