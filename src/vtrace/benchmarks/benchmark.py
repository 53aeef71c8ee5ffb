"""What an evaluation needs to know about a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..tracing.defaults import MAX_NEW_TOKENS, SYSTEM_PROMPT
from ..types import Example


class LostFile(NamedTuple):
    """A file of a dataset that could not be read."""

    name: str
    reason: str


@dataclass(frozen=True)
class Benchmark:
    """Numbered examples. Loading one can fail; the error says why the item is left out."""

    name: str
    size: int
    key: Callable[[int], str]  # known without the picture, so that finished items are not decoded again
    example: Callable[[int], Example]
    blur: float  # radius, as a fraction of a picture's longer side, at which the picture no longer shows the answer
    lost: tuple[LostFile, ...] = ()
    system: str = SYSTEM_PROMPT  # under which its questions are asked
    max_new_tokens: int = MAX_NEW_TOKENS  # of a response
