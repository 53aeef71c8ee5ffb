"""InternVL 3 and 3.5 (HF-native): tiles row-major and then a thumbnail, pixel shuffle, a plain text decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .family import Cell, Family, Size, grid

try:  # where the tile arrangement is computed moved when the backends were split
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas
except ImportError:
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas


def _side(config: Any) -> int:
    """Tokens along one side of a tile."""
    vision = config.vision_config
    return int(vision.image_size[0] // vision.patch_size[0] * config.downsample_ratio)


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell]]:
    images, side = processor.image_processor, _side(config)
    tile = (images.size["height"], images.size["width"])
    pictures = []
    for size in sizes:
        across, down = get_optimal_tiled_canvas((size[1], size[0]), tile, images.min_patches, images.max_patches)
        whole = grid(down * side, across * side, size)
        # Tile by tile: a stable sort by tile keeps the rows and columns inside each in order.
        whole.sort(key=lambda cell: (cell[1] // side, cell[2] // side))
        pictures.append(whole + (grid(side, side, size, view=1) if across * down > 1 else []))
    return pictures


def _mix_pixels(pixels: Tensor, others: Tensor, chosen: Tensor, config: Any) -> Tensor:
    """Tiles are pictures of their own; each token covers a square of its tile."""
    side = _side(config)
    squares = chosen.to(pixels.device).view(-1, 1, side, side)
    mask = squares.repeat_interleave(pixels.shape[2] // side, 2).repeat_interleave(pixels.shape[3] // side, 3)
    return pixels.where(~mask, others)


INTERNVL = Family(
    name="InternVL",
    model_types=("internvl",),
    status="supported: measured on the embedded Pinhole-InternVL; larger checkpoints load through the same code",
    decoder=lambda model: model.model.language_model,
    cells=_cells,
    mix_pixels=_mix_pixels,
)
