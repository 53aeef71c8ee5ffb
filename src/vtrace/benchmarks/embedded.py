"""Embedded examples: pictures and questions from the Shapes world."""

from __future__ import annotations

import re

from ..errors import InputError
from ..types import Example
from .registry import shapes_example
from .shapes.sample import sample
from .shapes.scene import SPLITS

SHOWN = "test-00011"  # what `vtrace explain` explains without arguments: a walk whose last step has to be looked up


def example(key: str = SHOWN) -> Example:
    """The embedded example with a key such as `test-00011`: split and number."""
    name, _, number = key.partition("-")
    split = next((split for split in SPLITS if split == name), None)
    if split is None or not re.fullmatch("[0-9]{1,9}", number):
        raise InputError(f"there is no example {key!r}; use a split and a number, such as test-7")
    return shapes_example(sample(split, int(number)))
