"""Molmo 2: the whole picture first, then overlapping crops of it; a token pools a square of patches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...types import Box
from .family import TESTED, Cell, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


class _View(NamedTuple):
    """The patches of one view of a picture, as squares of tokens: their numbers among all patches, -1 for none."""

    rows: int  # of tokens
    columns: int
    patches: Tensor  # rows · pool, columns · pool

    def shown(self) -> Box:
        """Where patches are, as fractions of the grid of tokens: its ends may have none."""
        there = self.patches >= 0
        (high, wide), down, across = there.shape, there.any(1).nonzero(), there.any(0).nonzero()
        left, top = int(across[0]) / wide, int(down[0]) / high
        return Box(left, top, (int(across[-1]) + 1) / wide, (int(down[-1]) + 1) / high)


def _views(inputs: ProcessorOutput) -> Iterator[tuple[_View, _View]]:
    """The small and the large view of each picture."""
    pooled, done = inputs["image_token_pooling"], 0
    pool = math.isqrt(pooled.shape[1])
    for shapes in inputs["image_grids"].tolist():
        views = []
        for rows, columns in (shapes[:2], shapes[2:]):
            own = pooled[done : done + rows * columns].view(rows, columns, pool, pool)
            done += rows * columns
            views.append(_View(rows, columns, own.transpose(1, 2).reshape(rows * pool, columns * pool)))
        yield views[0], views[1]


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    def shown(view: _View, number: int, size: Size) -> list[Cell]:
        return grid(view.rows, view.columns, size, number, view.shown())

    return [
        [*shown(small, 1, size), *shown(large, 0, size)]
        for (small, large), size in zip(_views(inputs), sizes, strict=True)
    ]


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """A mask of patches: crops, patches, 1. Where crops overlap, a place is hidden in all of them."""
    crops, each = inputs["pixel_values"].shape[:2]
    side, done = math.isqrt(each), 0
    mask = chosen.new_zeros(crops, side, side)
    for view in (view for views in _views(inputs) for view in views):
        count, pool = view.rows * view.columns, len(view.patches) // view.rows
        tokens = chosen[done : done + count].view(view.rows, view.columns)
        done += count
        hidden = tokens.repeat_interleave(pool, 0).repeat_interleave(pool, 1)
        for crop in (view.patches[view.patches >= 0] // each).unique().tolist():
            row, column = (view.patches // each == crop).nonzero()[0].tolist()  # a patch, and so where its crop begins
            inside = int(view.patches[row, column]) % each
            top, left = row - inside // side, column - inside % side
            mask[crop] = hidden[top : top + side, left : left + side]
    return mask.view(crops, each, 1)


MOLMO2 = Family(
    name="Molmo 2",
    model_types=("molmo2",),
    status=f"{TESTED}; attention from an image token to later ones is not followed; its processor needs torchvision",
    cells=_cells,
    pixel_mask=_pixel_mask,
    patch_numbers="image_token_pooling",
    fits=lambda config: not config.text_config.norm_after,
)
MOLMO2_O = replace(
    MOLMO2,
    name="Molmo 2-O",
    fits=lambda config: config.text_config.norm_after,
    branch_norm="input_layernorm",
)
