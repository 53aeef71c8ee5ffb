"""From what tokens answered to painted patterns to the grid they stand on, and to a confidence for each.

Along one axis, the answers of a token are a matrix D of patterns by features. A token that follows a band of the axis
answers to every pattern with one vector times the band's code c, so the band explains the share |cᵀD|² / |c|²|D|² of
its answers. Every token chooses the band of a grid that explains most. A grid is believed if tokens choose different
cells of it: all of them, in the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from .patterns import ALONE, Patterns

CLEAR = 0.95  # share of tokens with a cell of their own: no other number of rows is tried
COMPLETE = 0.9  # below this, tokens do not fill any grid
ENOUGH = 0.9  # of the best worth: a simpler grid is preferred if it has that much
_PARTS = [part / 8 for part in range(1, 8)]  # of a cell


class Bands(NamedTuple):
    """Equal bands along one axis of a picture, from `low` to `high` as fractions of it."""

    number: int
    low: float = 0.0
    high: float = 1.0

    def edges(self) -> Float64[np.ndarray, " edges"]:
        return self.low + (self.high - self.low) * np.arange(self.number + 1) / self.number


class View(NamedTuple):
    """Consecutive tokens on one grid."""

    tokens: slice
    rows: Bands
    columns: Bands


class Choice(NamedTuple):
    """The band that each token chose, how much of its answers it explains, and how sure that is."""

    band: Int[np.ndarray, " tokens"]
    explained: Float64[np.ndarray, " tokens"]
    confidence: Float64[np.ndarray, " tokens"]


class Placed(NamedTuple):
    """Where one token looks."""

    view: int
    row: int
    column: int
    box: tuple[float, float, float, float]  # fractions of the picture's sides
    confidence: float


@dataclass
class Answers:
    """What tokens answered to the patterns along one axis: the products of the answers to any two of them."""

    products: Float64[np.ndarray, "tokens patterns patterns"]  # the diagonal of each sums to 1
    patterns: Patterns
    _known: dict[Bands, Choice] = field(default_factory=dict)

    def choose(self, bands: Bands) -> Choice:
        """The band of each token. Confidence is the lead over the next band, relative to that of a perfect token."""
        if bands not in self._known:
            self._known[bands] = self._choose(bands)
        return self._known[bands]

    def fills(self, bands: Bands) -> bool:
        """Whether every band is some token's."""
        return len(np.unique(self.choose(bands).band)) == bands.number

    def _choose(self, bands: Bands) -> Choice:
        edges = bands.edges()
        codes = self.patterns.codes(edges[:-1], edges[1:])
        units = codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-9)
        explained = ((self.products @ units.T) * units.T).sum(1)
        every, band = np.arange(len(explained)), explained.argmax(1)
        best = explained[every, band].copy()
        if bands.number == 1:
            return Choice(band, best, np.ones(len(band)))
        explained[every, band] = -1
        alike = (units @ units.T) ** 2
        np.fill_diagonal(alike, -1)
        lead = 1 - explained.max(1) / np.maximum(best, 1e-9)
        return Choice(band, best, np.clip(lead / np.maximum(1 - alike.max(1)[band], 1e-9), 0, 1))


def _in_proportion(view: View, aspect: float) -> Iterator[View]:
    """The same grid on a picture that keeps its proportions: as cells are square, it was padded or cropped along one
    axis, on both sides or at its end."""
    rows, columns = view.rows.number, view.columns.number
    width = columns / rows / aspect  # of the grid along one axis if the picture fills the other
    for low in ((1 - width) / 2, 0.0):
        yield view._replace(columns=Bands(columns, low, low + width))
    for low in ((1 - 1 / width) / 2, 0.0):
        yield view._replace(rows=Bands(rows, low, low + 1 / width))


def _rounded_up(view: View, aspect: float) -> Iterator[View]:
    """The same grid on a picture that keeps its proportions and was padded at both ends, to whole cells. Bands that are
    wider than a painted quarter do not show where they end."""
    rows, columns = view.rows.number, view.columns.number
    least, most = max(columns - 1, (rows - 1) * aspect), min(columns, rows * aspect)  # cells that its width can fill
    for part in _PARTS if least < most and min(rows, columns) >= max(ALONE) else ():
        width = least + part * (most - least)
        yield View(view.tokens, Bands(rows, 0.0, rows * aspect / width), Bands(columns, 0.0, columns / width))


@dataclass(frozen=True)
class Grids:
    """Finds the grids that the tokens of one picture stand on."""

    down: Answers
    across: Answers
    most: int  # rows or columns
    aspect: float  # the picture's width, relative to its height

    def find(self) -> list[View]:
        """One grid, or two that follow each other: tiles and a thumbnail, in either order. The simplest that does."""
        whole = slice(0, len(self.down.products))
        single = self._best([view] for view in self._full_grids(whole))
        settled = [self._settled(view) for view in single]
        if settled and self._coverage(settled) >= CLEAR:
            return settled
        moved = self._best([self._settled(view)] for view in self._full_grids(whole))
        exact = [single, moved, [self._settled(view) for view in self._best(self._pairs(whole))]]
        covered = max(map(self._coverage, exact))
        if covered < COMPLETE:
            return self._loose(whole)
        full = [views for views in exact if self._coverage(views) >= covered - (1 - CLEAR)]
        best = max(map(self._worth, full))
        return next(views for views in full if self._worth(views) >= ENOUGH * best)

    def place(self) -> list[Placed]:
        """Every token on the best grids. Views with fewer cells are thumbnails."""
        views = self.find()
        detail = max(view.rows.number * view.columns.number for view in views)
        return [
            placed
            for view in views
            for placed in self._placed(view, int(view.rows.number * view.columns.number < detail))
        ]

    def _placed(self, view: View, number: int) -> Iterator[Placed]:
        rows, columns = self.down.choose(view.rows), self.across.choose(view.columns)
        ys, xs = np.clip(view.rows.edges(), 0, 1), np.clip(view.columns.edges(), 0, 1)
        for token in range(view.tokens.start, view.tokens.stop):
            row, column = int(rows.band[token]), int(columns.band[token])
            box = (float(xs[column]), float(ys[row]), float(xs[column + 1]), float(ys[row + 1]))
            yield Placed(number, row, column, box, float(min(rows.confidence[token], columns.confidence[token])))

    def _best(self, layouts: Iterable[list[View]]) -> list[View]:
        return max(layouts, key=self._worth, default=[])

    def _pairs(self, whole: slice) -> Iterator[list[View]]:
        """Two grids of different size."""
        for split in range(1, whole.stop):
            first, second = (
                self._best([view] for view in self._full_grids(part))
                for part in (slice(0, split), slice(split, whole.stop))
            )
            if first and second and 2 * split != whole.stop:
                yield [*first, *second]

    def _full_grids(self, tokens: slice) -> Iterator[View]:
        """Grids over the whole picture with a cell for each token."""
        count = tokens.stop - tokens.start
        for rows in range(1, min(count, self.most) + 1):
            if count % rows == 0 and count // rows <= self.most:
                yield View(tokens, Bands(rows), Bands(count // rows))

    def _settled(self, view: View) -> View:
        """The same grid as if the picture was not stretched but padded or cropped, if that is worth clearly more."""
        for others in (_in_proportion, _rounded_up):
            best = self._best([other] for other in others(view, self.aspect))
            if self._worth([view]) < ENOUGH * self._worth(best):
                (view,) = best
        return view

    def _loose(self, whole: slice) -> list[View]:
        """The rows and columns that explain most, whatever their number: tokens may have been left out or merged, but
        every row and column has some."""
        every = [Bands(count) for count in range(1, self.most + 1)]
        rows, columns = (
            max((b for b in every if axis.fills(b)), key=lambda b: axis.choose(b).explained.sum())
            for axis in (self.down, self.across)
        )
        return [View(whole, rows, columns)]

    def _worth(self, views: list[View]) -> float:
        """The share of tokens with a cell of their own, times what the choices explain, times how sure they are."""
        return self._coverage(views) * self._explained(views) * self._confidence(views) if views else 0.0

    def _coverage(self, views: list[View]) -> float:
        """The share of tokens that chose a cell of their own."""
        return sum(len(np.unique(self._cells(view))) for view in views) / len(self.down.products)

    def _cells(self, view: View) -> Int[np.ndarray, " tokens"]:
        rows, columns = self.down.choose(view.rows).band, self.across.choose(view.columns).band
        return (rows * view.columns.number + columns)[view.tokens]

    def _explained(self, views: list[View]) -> float:
        """The mean share of answers that is explained, over both axes."""
        return self._mean(views, lambda down, across: (down.explained + across.explained) / 2)

    def _confidence(self, views: list[View]) -> float:
        """The mean confidence in both axes."""
        return self._mean(views, lambda down, across: np.minimum(down.confidence, across.confidence))

    def _mean(self, views: list[View], value: Callable[[Choice, Choice], np.ndarray]) -> float:
        parts = [value(self.down.choose(v.rows), self.across.choose(v.columns))[v.tokens] for v in views]
        return float(np.concatenate(parts).mean())
