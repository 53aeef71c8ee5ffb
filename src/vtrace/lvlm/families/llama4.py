"""Llama 4: square tiles row-major over a picture that is padded on its right or below it, then the whole picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...types import Box
from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, by_tile, grid, square_mask

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def _side(config: ModelConfig) -> int:
    """Tokens along one side of a tile."""
    vision = config.vision_config
    return int(vision.image_size // vision.patch_size * vision.pixel_shuffle_ratio)


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    side = _side(config)
    pictures: list[PictureCells] = []
    for size in sizes:
        down, across, shown = _canvas(size, processor.image_processor)
        tiles = by_tile(grid(down * side, across * side, size, shown=shown), side) if down * across > 1 else []
        whole = grid(side, side, size, view=1) if tiles else grid(side, side, size, shown=shown)
        pictures.append([*tiles, *whole])
    return pictures


def _canvas(size: Size, images: Any) -> tuple[int, int, Box]:
    """Tiles down and across, and where the picture lies on them, as the image processor computes them."""
    import torch
    from transformers.image_utils import SizeDict
    from transformers.models.llama4 import image_processing_llama4 as own  # needs torchvision

    tile, picture = images.size["height"], (size[1], size[0])
    every = own.find_supported_resolutions(images.max_patches, SizeDict(height=tile, width=tile))
    high, wide = own.get_best_fit(picture, torch.tensor(every), images.resize_to_max_canvas).tolist()
    limit = (high, wide)
    if not images.resize_to_max_canvas:
        limit = (min(max(picture[0], tile), high), min(max(picture[1], tile), wide))
    height, width = own.get_max_res_without_distortion(picture, limit)
    return high // tile, wide // tile, Box(0.0, 0.0, max(width, 1) / wide, max(height, 1) / high)


LLAMA4 = Family(
    name="Llama 4",
    model_types=("llama4",),
    status=f"{TESTED}; tokens on the border of a picture are ranked with it; its processor needs torchvision",
    decoder=lambda model: model.language_model.model,
    cells=_cells,
    pixel_mask=square_mask(_side),
    tile=lambda config: _side(config) ** 2,
)
