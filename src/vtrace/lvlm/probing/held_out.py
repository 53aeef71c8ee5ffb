"""Whether the places that were found predict what tokens answer to pictures they were not found with.

Few tokens, or features that attention has mixed, can fill a grid by chance. So every token also answers to
checkerboards. Its answers D to the patterns along both axes give the vector g = Dᵀc with which it would follow a cell
of the grid, where c is the cell's code; with the code h of the cell in the checkerboards, it should then answer h gᵀ.
The place is confirmed if its prediction has a positive cosine with the answers, beyond chance, and no other cell of its
grid has a higher one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int8

from .patterns import Patterns
from .placing import Placed

BY_CHANCE = 0.1  # cosine of a prediction and the answers, below which it says nothing


class Course(NamedTuple):
    """Everything that is painted: patterns down and across the picture, then checkerboards."""

    patterns: Patterns
    down: Patterns  # of the checkerboards, whose signs are the products of both
    across: Patterns

    @classmethod
    def of_levels(cls, levels: int) -> Course:
        coarser = max(1, levels - 1)  # stripes of half a token would cancel inside it
        return cls(Patterns.of_levels(levels), Patterns.at_random(coarser, 0), Patterns.at_random(coarser, 1))

    def signs(self, height: int, width: int) -> Iterator[Int8[np.ndarray, "_ _"]]:
        """Of each picture, either side of which may be 1: it is the same all along."""
        count = len(self.patterns.signs)
        yield from (_line(self.patterns, one, height)[:, None] for one in range(count))
        yield from (_line(self.patterns, one, width)[None, :] for one in range(count))
        for one in range(len(self.down.signs)):
            yield _line(self.down, one, height)[:, None] * _line(self.across, one, width)[None, :]

    def parts(self) -> tuple[slice, slice, slice]:
        """Which pictures are patterns down, patterns across, and checkerboards."""
        count = len(self.patterns.signs)
        return slice(0, count), slice(count, 2 * count), slice(2 * count, None)


def _line(patterns: Patterns, pattern: int, length: int) -> Int8[np.ndarray, " length"]:
    return patterns.painted(pattern, length).astype(np.int8)  # a whole picture of them is to be small


def confirmed(
    products: Float64[np.ndarray, "tokens pictures pictures"], course: Course, placed: Sequence[Placed]
) -> Bool[np.ndarray, " tokens"]:
    """Whether each token's answers to checkerboards are predicted best by the cell that it was found to follow."""
    right = np.zeros(len(placed), dtype=bool)
    for view in {one.view for one in placed}:
        boxes = sorted({one.box for one in placed if one.view == view})
        codes, boards = _codes(course, np.array(boxes))
        for token, one in enumerate(placed):
            if one.view == view:
                cosines = _cosines(products[token], codes, boards)
                best = int(cosines.argmax())
                right[token] = boxes[best] == one.box and cosines[best] > BY_CHANCE
    return right


def _cosines(
    products: Float64[np.ndarray, "pictures pictures"],
    codes: Float64[np.ndarray, "cells patterns"],
    boards: Float64[np.ndarray, "cells checkerboards"],
) -> Float64[np.ndarray, " cells"]:
    """Between a token's answers to checkerboards and what each cell predicts."""
    known, held = slice(0, codes.shape[1]), slice(codes.shape[1], None)
    predicted = np.sqrt(((codes @ products[known, known]) * codes).sum(1)) * np.linalg.norm(boards, axis=1)
    answered = np.sqrt(products[held, held].trace())
    return ((boards @ products[held, known]) * codes).sum(1) / np.maximum(predicted * answered, 1e-300)


def _codes(course: Course, boxes: Float64[np.ndarray, "cells 4"]) -> tuple[np.ndarray, np.ndarray]:
    """What cells see of all patterns, and of the checkerboards: cells by pictures."""
    left, top, right, bottom = boxes.T
    patterns = [course.patterns.codes(top, bottom), course.patterns.codes(left, right)]
    return np.concatenate(patterns, axis=1), course.down.codes(top, bottom) * course.across.codes(left, right)
