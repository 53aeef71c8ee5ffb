"""Pixtral and models after it: pictures keep their aspect ratio; tokens row-major, a break token after each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid, soft_capped

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _pitch(config: ModelConfig) -> int:
    """Pixels along one side of a token."""
    return config.vision_config.patch_size * getattr(config, "spatial_merge_size", 1)


def _grids(inputs: ProcessorOutput, config: ModelConfig) -> list[tuple[int, int]]:
    import torch

    pitch = _pitch(config)
    return [(height // pitch, width // pitch) for height, width in torch.as_tensor(inputs["image_sizes"]).tolist()]


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    return [[*grid(*shape, size)] for shape, size in zip(_grids(inputs, config), sizes, strict=True)]


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """Smaller pictures lie in the top left corner of the canvas that all pictures share."""
    pixels, pitch, done = inputs["pixel_values"], _pitch(config), 0
    mask = chosen.new_zeros(len(pixels), 1, *pixels.shape[-2:])
    for own, (rows, columns) in zip(mask, _grids(inputs, config), strict=True):
        cells = chosen[done : done + rows * columns].view(rows, columns)
        done += rows * columns
        own[0, : rows * pitch, : columns * pitch] = cells.repeat_interleave(pitch, 0).repeat_interleave(pitch, 1)
    return mask


PIXTRAL = Family(
    name="Pixtral, Mistral 3 and LightOnOCR",
    model_types=("mistral3", "llava", "lighton_ocr"),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    fits=lambda config: config.vision_config.model_type == "pixtral",
)
MISTRAL_LARGE4 = Family(
    name="Mistral Large 4",
    model_types=("mistral_large4",),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    logits=soft_capped,
)
