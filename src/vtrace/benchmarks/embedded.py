"""Embedded examples: pictures and questions from the Shapes world."""

from __future__ import annotations

from ..errors import InputError
from ..types import Example
from .registry import as_example
from .shapes.sample import sample

SHOWN = "test-00011"  # what `vtrace explain` explains without arguments: a walk whose end has to be read off


def example(key: str = SHOWN) -> Example:
    """The embedded example with a key such as `test-00011`: split and number."""
    split, _, number = key.partition("-")
    if split not in ("train", "dev", "test") or not number.isdigit():
        raise InputError(f"there is no example {key!r}; use a split and a number, such as test-7")
    return as_example(sample(split, int(number)))
