"""LFM2-VL: tiles row-major and then the whole picture, or the whole picture alone; each is a grid of merged patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image

from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, by_tile, grid

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _shapes(inputs: ProcessorOutput, config: ModelConfig) -> list[tuple[int, int]]:
    """Rows and columns of tokens in each view of each picture."""
    merge = config.downsample_factor
    return [(high // merge, wide // merge) for high, wide in inputs["spatial_shapes"].tolist()]


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The arrangement of tiles is the one that the image processor itself reports for each size."""
    shapes, images = iter(_shapes(inputs, config)), processor.image_processor
    pictures: list[PictureCells] = []
    for size in sizes:
        found = images([[Image.new("RGB", size)]], return_row_col_info=True)
        down, across = int(found["image_rows"][0]), int(found["image_cols"][0])
        views = [next(shapes) for _ in range(len(found["pixel_values"]))]
        if down * across == 1:
            pictures.append([*grid(*views[0], size)])
            continue
        side = views[0][0]  # tiles are squares
        whole = [cell for shape in views[down * across :] for cell in grid(*shape, size, view=1)]
        pictures.append([*by_tile(grid(down * side, across * side, size), side), *whole])
    return pictures


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """A mask of patches: views, patches, 1. Patches are in rows, and padding follows them."""
    merge, done = config.downsample_factor, 0
    mask = chosen.new_zeros(inputs["pixel_values"].shape[:2])
    for own, (rows, columns) in zip(mask, _shapes(inputs, config), strict=True):
        tokens = chosen[done : done + rows * columns].view(rows, columns)
        done += rows * columns
        patches = tokens.repeat_interleave(merge, 0).repeat_interleave(merge, 1).flatten()
        own[: len(patches)] = patches
    return mask[..., None]


LFM2_VL = Family(
    name="LFM2-VL",
    model_types=("lfm2_vl",),
    status=f"{TESTED}; its processor needs torchvision",
    cells=_cells,
    pixel_mask=_pixel_mask,
)
