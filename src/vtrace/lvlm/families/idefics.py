"""Idefics3 and SmolVLM: tiles row-major and then the whole picture, pixel shuffle, a plain text decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image

from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, by_tile, grid, squares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _side(config: ModelConfig) -> int:
    """Tokens along one side of a tile."""
    return config.vision_config.image_size // config.vision_config.patch_size // config.scale_factor


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The arrangement of tiles is the one that the image processor itself reports for each size."""
    side, images = _side(config), processor.image_processor
    pictures: list[PictureCells] = []
    for size in sizes:
        found = images([[Image.new("RGB", size)]], return_row_col_info=True)
        rows, columns = found["rows"][0][0], found["cols"][0][0]
        tiles = by_tile(grid(rows * side, columns * side, size), side) if rows else []
        pictures.append([*tiles, *grid(side, side, size, view=1 if rows else 0)])
    return pictures


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    return squares(chosen, _side(config), inputs["pixel_values"])[None]


IDEFICS3 = Family(
    name="Idefics3 and SmolVLM",
    model_types=("idefics3", "smolvlm"),
    status=f"Idefics3: tried on the trained Pinhole-SmolLM2; SmolVLM: {TESTED}",
    decoder=lambda model: model.model.text_model,
    cells=_cells,
    pixel_mask=_pixel_mask,
    tile=lambda config: _side(config) ** 2,
)
