"""DeepSeek-VL and Janus: a picture is resized to fit a square and padded on both sides; a square of tokens shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...types import Box
from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid, square_mask

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def _side(config: ModelConfig) -> int:
    return config.vision_config.image_size // config.vision_config.patch_size


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """Tokens on the border have empty boxes."""
    side, images = _side(config), processor.image_processor
    return [[*grid(side, side, size, shown=_padded(size, images.size["height"], images.min_size))] for size in sizes]


def _padded(size: Size, square: int, least: int) -> Box:
    """Where the picture lies on the square."""
    width, height = (max(round(length * square / max(size)), least) for length in size)
    left, top = (square - width) // 2 / square, (square - height) // 2 / square
    return Box(left, top, left + width / square, top + height / square)


DEEPSEEK_VL = Family(
    name="DeepSeek-VL and Janus",
    model_types=("deepseek_vl", "janus"),
    status=f"{TESTED}; tokens on the border of a picture are ranked with it",
    cells=_cells,
    pixel_mask=square_mask(_side),
)
