"""MiniCPM-V 4.6 and 4.7: the whole picture first, then slices row-major; each slice is a grid of merged patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image

from .family import CONVOLVED, TESTED, Cell, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _merge(config: ModelConfig) -> int:
    """Patches along one side of a token."""
    return 2 if config.downsample_mode == "4x" else 4


def _shapes(inputs: ProcessorOutput, config: ModelConfig) -> list[tuple[int, int]]:
    """Rows and columns of tokens in each slice of each picture."""
    merge = _merge(config)
    return [(high // merge, wide // merge) for high, wide in inputs["target_sizes"].tolist()]


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The arrangement of slices is the one that the image processor itself reports for each size."""
    shapes, images = iter(_shapes(inputs, config)), processor.image_processor
    pictures: list[PictureCells] = []
    for size in sizes:
        (found,) = images([Image.new("RGB", size)], return_tensors="pt")["grids"]
        down, across = map(int, found)
        cells: list[Cell] = grid(*next(shapes), size, view=1 if down * across else 0)
        slices = [next(shapes) for _ in range(down * across)]
        if slices:
            rows, columns = slices[0]
            whole = grid(down * rows, across * columns, size)
            cells += sorted(whole, key=lambda cell: (cell.row // rows, cell.column // columns))  # keeps their order
        pictures.append([*cells])
    return pictures


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """Patches of all slices stand side by side: 1,1,1,columns of pixels."""
    import torch

    merge, side, done, parts = _merge(config), config.vision_config.patch_size, 0, []
    for rows, columns in _shapes(inputs, config):
        tokens = chosen[done : done + rows * columns].view(rows, columns)
        done += rows * columns
        parts.append(tokens.repeat_interleave(merge, 0).repeat_interleave(merge, 1).flatten())
    return torch.cat(parts).repeat_interleave(side)[None, None, None]


MINICPM = Family(
    name="MiniCPM-V 4.6 and 4.7",
    model_types=("minicpmv4_6", "minicpmv4_7"),
    status=f"{TESTED}; {CONVOLVED}",
    cells=_cells,
    pixel_mask=_pixel_mask,
    pixel_axis=-1,
)
