"""What an evaluation needs to know of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..types import Example


@dataclass(frozen=True)
class Benchmark:
    """Numbered examples. Making one can fail, with the reason why this item has to be left out."""

    name: str
    size: int
    key: Callable[[int], str]  # known without the picture, so that finished items need not be decoded again
    example: Callable[[int], Example]
    blur: float  # radius, as a share of a picture's longer side, at which it no longer shows the answer
    lost: tuple[tuple[str, str], ...] = ()  # files that could not be read, and why
