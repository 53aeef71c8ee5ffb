"""Pixtral and Mistral 3: pictures keep their shape; tokens row-major, a break token behind each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .family import Cell, Family, Size, grid


def _pitch(config: Any) -> int:
    """Pixels along one side of a token."""
    return config.vision_config.patch_size * getattr(config, "spatial_merge_size", 1)


def _grids(inputs: dict[str, Any], config: Any) -> list[tuple[int, int]]:
    pitch = _pitch(config)
    return [(height // pitch, width // pitch) for height, width in torch.as_tensor(inputs["image_sizes"]).tolist()]


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell | None]]:
    return [[*grid(*shape, size)] for shape, size in zip(_grids(inputs, config), sizes, strict=True)]


def _pixel_mask(inputs: dict[str, Any], chosen: Tensor, config: Any) -> Tensor:
    """Smaller pictures stand in the top left corner of the canvas that all of them share."""
    pixels, pitch, done = inputs["pixel_values"], _pitch(config), 0
    mask = chosen.new_zeros(len(pixels), 1, *pixels.shape[-2:])
    for own, (rows, columns) in zip(mask, _grids(inputs, config), strict=True):
        cells = chosen[done : done + rows * columns].view(rows, columns)
        done += rows * columns
        own[0, : rows * pitch, : columns * pitch] = cells.repeat_interleave(pitch, 0).repeat_interleave(pitch, 1)
    return mask


PIXTRAL = Family(
    name="Pixtral and Mistral 3",
    model_types=("mistral3", "llava"),
    status="proved on small random models",
    decoder=lambda model: model.model.language_model,
    cells=_cells,
    pixel_mask=_pixel_mask,
    fits=lambda config: config.vision_config.model_type == "pixtral",
)
