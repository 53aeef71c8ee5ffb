"""Check the value of an option against its annotation.

Written by hand, because validation libraries convert wrong values ("3" to 3, true to 1) or describe errors in terms of
Python types; here a wrong value is an error in one line that says what the option accepts.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args, get_origin

from ..errors import InputError

MOST_SEED = 2**31 - 1
MOST_STEPS = 100_000  # of anything that is counted: more takes days
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def check_option(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that the annotation of an option does not allow."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{name} is {value!r}; use one of: {', '.join(map(repr, get_args(kind)))}")
        return
    least = None
    if get_origin(kind) is Annotated:
        kind, least = get_args(kind)
    kinds = get_args(kind) or (kind,)
    if value is None and type(None) in kinds:
        return
    plain = next(k for k in kinds if k is not type(None))
    fits = isinstance(value, (int, float) if plain is float else plain)
    if not fits or (isinstance(value, bool) and plain is not bool):
        raise InputError(f"{name} is {value!r}; it must be {_WORDS[plain]}")
    if plain is float and not math.isfinite(value):
        raise InputError(f"{name} is {value}; it must be a finite number")
    if plain is int and value < (least or 0):
        raise InputError(f"{name} is {value}; it must be at least {least or 0}")
    if least is not None and value > MOST_STEPS:
        raise InputError(f"{name} is {value}; it must be at most {MOST_STEPS}")
    if name.rpartition(".")[2] == "seed" and value > MOST_SEED:
        raise InputError(f"{name} is {value}; it must be at most {MOST_SEED}")
