"""Nemotron-H Omni: merged patches row-major over the whole picture, at its own shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .family import CONVOLVED, TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid
from .qwen_vl import row_major_mask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    merge = round(1 / config.downsample_ratio)
    shapes = inputs["image_grid_hw"].tolist()
    return [[*grid(rows // merge, columns // merge, size)] for (rows, columns), size in zip(shapes, sizes, strict=True)]


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    return row_major_mask(inputs, chosen, round(1 / config.downsample_ratio), "image_grid_hw")


NEMOTRON_OMNI = Family(
    name="Nemotron-H Omni",
    model_types=("nemotron_h_omni",),
    status=f"{TESTED}; pictures only; its processor needs torchvision and librosa; {CONVOLVED}",
    decoder=lambda model: model.language_model.model,
    cells=_cells,
    pixel_mask=_pixel_mask,
)
