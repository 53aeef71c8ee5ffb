"""InternVL, Aya Vision, Cohere2 Vision, Ovis 2 and Perception LM: square tiles row-major and a thumbnail."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PIL import Image

from .family import (
    TESTED,
    Family,
    ModelConfig,
    PictureCells,
    ProcessorOutput,
    Size,
    by_tile,
    grid,
    square_mask,
    squares,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _side(config: ModelConfig) -> int:
    """Tokens along one side of a tile."""
    vision = config.vision_config
    if hasattr(config, "downsample_ratio"):  # InternVL
        return int(vision.image_size[0] // vision.patch_size[0] * config.downsample_ratio)
    patches = vision.image_size // vision.patch_size
    merged = vision.hidden_stride if hasattr(vision, "hidden_stride") else config.downsample_factor
    return -(-patches // merged)


def _arrangement(size: Size, images: Any) -> tuple[int, int]:
    """Tiles down and across a picture."""
    own = sys.modules[type(images).__module__]
    tile = (images.size["height"], images.size["width"])
    if rule := getattr(own, "get_optimal_tiled_canvas", None):  # Cohere2 Vision has its own
        across, down = rule((size[1], size[0]), tile, images.min_patches, images.max_patches)
        return down, across
    try:  # transformers moved the computation of the tile arrangement when it split the backends
        from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas
    except ImportError:
        from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    across, down = get_optimal_tiled_canvas((size[1], size[0]), tile, images.min_patches, images.max_patches)
    return down, across


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    side = _side(config)
    pictures: list[PictureCells] = []
    for size in sizes:
        down, across = _arrangement(size, processor.image_processor)
        tiles = by_tile(grid(down * side, across * side, size), side)
        pictures.append([*tiles, *(grid(side, side, size, view=1) if across * down > 1 else [])])
    return pictures


def _thumbnail_first(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The arrangement of tiles is the one that the image processor itself reports for each size."""
    side = _side(config)
    pictures: list[PictureCells] = []
    for size in sizes:
        down, across = processor.image_processor([Image.new("RGB", size)], return_tensors="pt")["grids"][0].tolist()
        tiles = by_tile(grid(down * side, across * side, size), side) if down * across > 1 else []
        pictures.append([*grid(side, side, size, view=1 if tiles else 0), *tiles])
    return pictures


AYA_VISION = Family(
    name="Aya Vision",
    model_types=("aya_vision",),
    status=TESTED,
    cells=_cells,
    pixel_mask=square_mask(_side),
    tile=lambda config: _side(config) ** 2,
)
COHERE2_VISION = replace(
    AYA_VISION,
    name="Cohere2 Vision",
    model_types=("cohere2_vision",),
    status=f"{TESTED}; its processor needs torchvision",
)
OVIS2 = Family(
    name="Ovis 2",
    model_types=("ovis2",),
    status=TESTED,
    cells=_thumbnail_first,
    pixel_mask=square_mask(_side),
    tile=lambda config: _side(config) ** 2,
)
INTERNVL = Family(
    name="InternVL and Qianfan-OCR",
    model_types=("internvl", "qianfan_ocr"),
    status=f"InternVL: measured on the embedded Pinhole-InternVL; Qianfan-OCR: {TESTED}",
    cells=_cells,
    pixel_mask=square_mask(_side),
    tile=lambda config: _side(config) ** 2,
)


def _thumbnail_and_tiles(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """Tiles are row-major, also if there is only one; in its other mode the processor gives the thumbnail alone."""
    images: Any = processor.image_processor
    side = images.tile_size // processor.patch_size // processor.pooling_ratio
    pictures: list[PictureCells] = []
    for size in sizes:
        tiled = images.vision_input_type == "thumb+tile"
        arrangement = images._fit_image_to_canvas(*size, images.tile_size)
        across, down = arrangement or images._find_closest_aspect_ratio(*size, images.tile_size)
        tiles = by_tile(grid(down * side, across * side, size), side) if tiled else []
        pictures.append([*grid(side, side, size, view=int(tiled)), *tiles])
    return pictures


def _tile_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """A mask like the pixels: pictures, tiles, 1, height, width."""
    pixels = inputs["pixel_values"]
    pictures, tiles = pixels.shape[:2]
    mask = squares(chosen, math.isqrt(len(chosen) // (pictures * tiles)), pixels)
    return mask.view(pictures, tiles, *mask.shape[1:])


PERCEPTION_LM = Family(
    name="Perception LM",
    model_types=("perception_lm",),
    status=f"{TESTED}; its processor needs torchvision and its vision tower timm",
    cells=_thumbnail_and_tiles,
    pixel_mask=_tile_mask,
)
