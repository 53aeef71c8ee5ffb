"""Kimi-K2.5: merged patches row-major over a picture that is padded on its right and below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...types import Box
from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid
from .qwen_vl import row_major_mask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """Where the picture ends on its canvas is computed as the image processor does."""
    from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize  # needs torchvision

    images, (down, across) = processor.image_processor, config.vision_config.merge_kernel_size
    pictures: list[PictureCells] = []
    for (_, rows, columns), (width, height) in zip(inputs["image_grid_thw"].tolist(), sizes, strict=True):
        (high, wide), (canvas_high, canvas_wide) = navit_resize(
            height, width, images.patch_size, images.merge_size, images.max_patches, images.size["max_height"]
        )
        shown = Box(0.0, 0.0, wide / canvas_wide, high / canvas_high)
        pictures.append([*grid(rows // down, columns // across, Size(width, height), shown=shown)])
    return pictures


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    return row_major_mask(inputs, chosen, config.vision_config.merge_kernel_size[0])


KIMI = Family(
    name="Kimi-K2.5",
    model_types=("kimi_k25",),
    status=f"{TESTED}; pictures only; its processor needs torchvision",
    cells=_cells,
    pixel_mask=_pixel_mask,
)
