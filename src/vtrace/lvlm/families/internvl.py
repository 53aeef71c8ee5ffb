"""InternVL 3 and 3.5 (HF-native): tiles row-major and then a thumbnail, pixel shuffle, a plain text decoder."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import ProcessorMixin

from .family import Family, ModelConfig, PictureCells, ProcessorOutput, Size, by_tile, grid, square_mask

try:  # transformers moved the computation of the tile arrangement when it split the backends
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas
except ImportError:
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas


def _side(config: ModelConfig) -> int:
    """Tokens along one side of a tile."""
    vision = config.vision_config
    return int(vision.image_size[0] // vision.patch_size[0] * config.downsample_ratio)


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    images, side = processor.image_processor, _side(config)
    tile = (images.size["height"], images.size["width"])
    pictures: list[PictureCells] = []
    for size in sizes:
        across, down = get_optimal_tiled_canvas((size[1], size[0]), tile, images.min_patches, images.max_patches)
        tiles = by_tile(grid(down * side, across * side, size), side)
        pictures.append([*tiles, *(grid(side, side, size, view=1) if across * down > 1 else [])])
    return pictures


INTERNVL = Family(
    name="InternVL",
    model_types=("internvl",),
    status="measured on the embedded Pinhole-InternVL",
    cells=_cells,
    pixel_mask=square_mask(_side),
    tile=lambda config: _side(config) ** 2,
)
