"""Which inputs are hidden: the strongest of a ranking, as many random ones, or all others. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..attribution.findings.verification import InputCount
from ..attribution.result import Attribution, RankedInput
from ..errors import InputError
from ..types import Setting

LADDER = (0.01, 0.02, 0.05, 0.10, 0.20)  # shares of the ranking at which everything is measured


@dataclass(frozen=True)
class HideableInputs:
    """Patches and question words, the strongest first. Sets are made of their numbers in this order."""

    items: tuple[RankedInput, ...]

    @classmethod
    def of(cls, attribution: Attribution, setting: Setting) -> HideableInputs:
        found = tuple(item for item in attribution.ranking() if setting in ("joint", item.kind))
        if not found:
            what = {"image": "patches", "question": "question words", "joint": "patches or question words"}[setting]
            raise InputError(f"there is nothing to hide: the prompt has no {what}")
        return cls(found)

    def __len__(self) -> int:
        return len(self.items)

    def hide(self, numbers: Sequence[int]) -> frozenset[int]:
        """Positions of these inputs."""
        return frozenset(p for number in numbers for p in self.items[number].positions)

    def keep(self, numbers: Sequence[int]) -> frozenset[int]:
        """Positions of all other inputs."""
        return self.hide(range(len(self))) - self.hide(numbers)

    def count(self, numbers: Sequence[int]) -> InputCount:
        patches = sum(self.items[number].kind == "image" for number in numbers)
        return InputCount(patches, len(numbers) - patches)

    def share(self, numbers: Sequence[int]) -> float:
        return sum(self.items[number].score for number in numbers)

    def matching(self, order: Sequence[int], count: InputCount) -> list[int]:
        """The first inputs of an order that make up a set with this many patches and words."""
        patches = [number for number in order if self.items[number].kind == "image"]
        words = [number for number in order if self.items[number].kind != "image"]
        return patches[: count.patches] + words[: count.words]


def ladder_sizes(total: int) -> list[int]:
    """Sizes of sets at the shares of the ladder, without the set of all inputs."""
    return sorted({size for share in LADDER if (size := math.ceil(share * total)) < total})


def random_orders(total: int, draws: int, seed: int) -> list[list[int]]:
    """Independent random orders of all inputs."""
    generator = np.random.default_rng(seed)
    return [generator.permutation(total).tolist() for _ in range(draws)]


def smallest_success(succeeded: Mapping[int, bool]) -> int | None:
    """The smallest size that is known to succeed."""
    return min((size for size, success in succeeded.items() if success), default=None)


def sizes_to_try(succeeded: Mapping[int, bool], most: int) -> list[int]:
    """At most `most` sizes between the smallest that succeeded and the largest below it that did not, evenly spaced.

    Sizes below that were tried in larger steps are not tried again: the search assumes that larger sets do not fail
    where smaller ones succeed.
    """
    top = smallest_success(succeeded)
    if top is None:
        return []
    bottom = max((size for size in succeeded if size < top), default=0)
    inner = range(bottom + 1, top)
    if len(inner) <= most:
        return list(inner)
    return sorted({bottom + round((k + 1) * (top - bottom) / (most + 1)) for k in range(most)})
