"""Striped patterns that write a position into a picture in binary, and what a token sees of them.

A pattern is a row of signs along one axis of the picture, +1 and -1 for two inks and 0 for grey. Stripes of width 1/2,
1/4, 1/8, … spell a position in binary. Two things beside make the code unambiguous for a feature that answers with
either sign: the same stripes moved by part of their width, and one half or quarter of the picture at a time, on grey.

What was found with these is tested with others: checkerboards, in which random stripes along both axes are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

ALONE = (2, 4)  # parts of the side, each of which is painted alone
MOVES = (0.0, 0.25, 0.5, 0.75)  # of the width of a stripe
CHECKERBOARDS = 24


@dataclass(frozen=True)
class Patterns:
    """Patterns along one axis, as signs of equal steps."""

    signs: Float64[np.ndarray, "patterns steps"]

    @classmethod
    def of_levels(cls, levels: int) -> Patterns:
        """Stripes of width 1/2 to 1/2^levels, each moved by quarters of its width; halves and quarters alone."""
        steps = 2 ** (levels + 2)
        places = (np.arange(steps) + 0.5) / steps
        stripes = [places * 2**level + moved for level in range(1, levels + 1) for moved in MOVES]
        signs = [np.where(np.floor(stripe) % 2 == 1, 1.0, -1.0) for stripe in stripes]
        signs += [np.where(np.floor(places * count) == part, 1.0, 0.0) for count in ALONE for part in range(count)]
        return cls(np.stack(signs))

    @classmethod
    def at_random(cls, levels: int, seed: int) -> Patterns:
        """Stripes of random signs, of width 1/2 to 1/2^levels in turn, never all of one sign."""
        rng, rows = np.random.default_rng(seed), []
        for number in rng.permutation(CHECKERBOARDS):
            stripes = rng.choice((-1.0, 1.0), size=2 ** (1 + number % levels))
            stripes[rng.integers(len(stripes))] *= -1 if abs(stripes.sum()) == len(stripes) else 1
            rows.append(np.repeat(stripes, 2 ** (levels + 2) // len(stripes)))
        return cls(np.stack(rows))

    def painted(self, pattern: int, length: int) -> Float64[np.ndarray, " length"]:
        """The signs of `length` pixels."""
        steps = self.signs.shape[1]
        return self.signs[pattern, ((np.arange(length) + 0.5) * steps / length).astype(int)]

    def codes(
        self, starts: Float64[np.ndarray, " bands"], stops: Float64[np.ndarray, " bands"]
    ) -> Float64[np.ndarray, "bands patterns"]:
        """What bands of the axis, as fractions of it, see of each pattern: its mean. Bands outside see nothing."""
        steps = self.signs.shape[1]
        summed = np.concatenate([np.zeros((len(self.signs), 1)), self.signs.cumsum(1) / steps], axis=1)
        edges = np.arange(steps + 1) / steps
        low, high = np.clip(starts, 0, 1), np.clip(stops, 0, 1)
        seen = np.stack([np.interp(high, edges, total) - np.interp(low, edges, total) for total in summed], axis=1)
        return seen / np.maximum(high - low, 1e-9)[:, None]
