"""LLaVA 1.5 and FastVLM (one cropped square), LLaVA-NeXT, LLaVA-OneVision and Granite 4 Vision (a thumbnail first, then
tiles with row ends)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from ...errors import ModelError
from ...types import Box
from .family import (
    TESTED,
    WHOLE,
    Arguments,
    Family,
    ModelConfig,
    PictureCells,
    ProcessorOutput,
    Size,
    grid,
    square_mask,
    squares,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BaseImageProcessor, ProcessorMixin


def _side(config: ModelConfig) -> int:
    """Tokens along one side of a tile."""
    patches = config.vision_config.image_size // config.vision_config.patch_size
    return int(patches * Fraction(getattr(config, "downsample_rate", None) or 1))


def _cropped(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The shorter side fills the square, and the ends of the longer one are cut off."""
    return _cropped_grid(processor, _side(config), sizes)


def _cropped_grid(processor: ProcessorMixin, side: int, sizes: Sequence[Size]) -> list[PictureCells]:
    images = processor.image_processor
    if getattr(images, "do_pad", False):
        raise ModelError("this checkpoint pads pictures to squares, which is not supported for LLaVA")
    return [[*grid(side, side, size, shown=_crop(size, images))] for size in sizes]


def _crop(size: Size, images: BaseImageProcessor) -> Box:
    """Where the picture lies relative to the square it is cropped to: beyond its edges."""
    if not images.size.get("shortest_edge"):
        return WHOLE
    width, height = size
    scale = images.size["shortest_edge"] / min(size)
    wide, high = width * scale / images.crop_size["width"], height * scale / images.crop_size["height"]
    return Box((1 - wide) / 2, (1 - high) / 2, (1 + wide) / 2, (1 + high) / 2)


@dataclass(frozen=True)
class _Tiling:
    """How one picture is tiled: tiles, the tokens of their border, and the tokens that are left after downsampling."""

    down: int  # tiles
    across: int
    top: int  # rows of border above, and the same number below
    left: int
    rows: int  # of tokens after the thumbnail
    columns: int


def _tilings(inputs: ProcessorOutput, config: ModelConfig) -> Iterator[_Tiling | None]:
    """One for each picture; None if it is shown as a thumbnail only, as OneVision does with several pictures."""
    sizes = inputs["image_sizes"].tolist()
    beside = [count for count in inputs.get("batch_num_images", [1] * len(sizes)) for _ in range(int(count))]
    for (height, width), count in zip(sizes, beside, strict=True):
        yield _tiling(height, width, config) if count == 1 else None


def _tiling(height: int, width: int, config: ModelConfig) -> _Tiling:
    from transformers.image_processing_utils import select_best_resolution

    side, tile = _side(config), config.vision_config.image_size
    high, wide = select_best_resolution((height, width), config.image_grid_pinpoints)
    down, across = high // tile, wide // tile
    rows, columns, top, left = down * side, across * side, 0, 0
    if width / height > columns / rows:
        top = (rows - int(round(height * (columns / width), 7))) // 2
    else:
        left = (columns - int(round(width * (rows / height), 7))) // 2
    rows, columns = rows - 2 * top, columns - 2 * left
    limit = getattr(config, "vision_aspect_ratio", "")
    if limit.startswith("anyres_max_"):  # OneVision downsamples the features of very large pictures
        ratio = math.sqrt(rows * columns / (int(limit.removeprefix("anyres_max_")) * side**2))
        if ratio > 1.1:
            rows, columns = int(rows // ratio), int(columns // ratio)
    return _Tiling(down, across, top, left, rows, columns)


def _tiled(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    side = _side(config)
    pictures: list[PictureCells] = []
    for size, tiling in zip(sizes, _tilings(inputs, config), strict=True):
        if tiling is None:
            pictures.append([*grid(side, side, size), None])
            continue
        cells: PictureCells = [*grid(side, side, size, view=1)]
        tiles = grid(tiling.rows, tiling.columns, size, shown=_bordered(size, tiling, config))
        for row in range(tiling.rows):
            cells += [*tiles[row * tiling.columns : (row + 1) * tiling.columns], None]  # and the end of the row
        pictures.append(cells)
    return pictures


def _bordered(size: Size, tiling: _Tiling, config: ModelConfig) -> Box:
    """Where the picture lies on the tokens that are kept: all of them, up to rounding."""
    side, tile = _side(config), config.vision_config.image_size
    canvas = (tiling.across * tile, tiling.down * tile)
    scale = min(canvas[0] / size[0], canvas[1] / size[1])
    shown = [min(math.ceil(s * scale), c) for s, c in zip(size, canvas, strict=True)]
    starts = [(c - s) // 2 for s, c in zip(shown, canvas, strict=True)]  # of the picture on the canvas, in pixels
    cut = [border * tile / side for border in (tiling.left, tiling.top)]  # what is dropped at each end
    kept = [c - 2 * b for c, b in zip(canvas, cut, strict=True)]
    near = [(a - b) / k for a, b, k in zip(starts, cut, kept, strict=True)]
    far = [(a + s - b) / k for a, s, b, k in zip(starts, shown, cut, kept, strict=True)]
    return Box(near[0], near[1], far[0], far[1])


def _tiles_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """A mask like the pixels: pictures, tiles (thumbnail first), 1, height, width."""
    import torch

    side, pixels = _side(config), inputs["pixel_values"]
    masks, done = [], 0
    for tiling in _tilings(inputs, config):
        parts = [chosen[done : done + side**2]]
        done += side**2
        if tiling is not None:
            count = tiling.rows * tiling.columns
            shown = chosen[done : done + count].view(1, 1, tiling.rows, tiling.columns)
            done += count
            canvas = chosen.new_zeros(tiling.down * side, tiling.across * side)
            inside = canvas[tiling.top : len(canvas) - tiling.top, tiling.left : canvas.shape[1] - tiling.left]
            inside[:] = torch.nn.functional.interpolate(shown.float(), inside.shape, mode="nearest")[0, 0].bool()
            tiles = canvas.view(tiling.down, side, tiling.across, side).transpose(1, 2)
            parts.append(tiles.reshape(-1))
        mask = squares(torch.cat(parts), side, pixels)
        rest = mask.new_zeros(pixels.shape[1] - len(mask), *mask.shape[1:])
        masks.append(torch.cat([mask, rest]))
    return torch.stack(masks)


LLAVA = Family(
    name="LLaVA 1.5 and ViP-LLaVA",
    model_types=("llava", "vipllava"),
    status=f"{TESTED}; the model does not see what its crop cuts off",
    cells=_cropped,
    pixel_mask=square_mask(_side),
    fits=lambda config: config.vision_config.model_type != "pixtral",
)
LLAVA_NEXT = Family(
    name="LLaVA-NeXT",
    model_types=("llava_next", "llava_next_video"),
    status=f"{TESTED}; pictures only",
    cells=_tiled,
    pixel_mask=_tiles_mask,
)
LLAVA_ONEVISION = Family(
    name="LLaVA-OneVision",
    model_types=("llava_onevision",),
    status=f"{TESTED}; features of very large pictures are downsampled, so blurred areas are approximate",
    cells=_tiled,
    pixel_mask=_tiles_mask,
)


def _strided(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    """The configuration of a convolutional tower has no patches; the processor knows what they amount to."""
    return _cropped_grid(processor, inputs["pixel_values"].shape[-1] // processor.patch_size, sizes)


def _strided_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    pixels = inputs["pixel_values"]
    return squares(chosen, math.isqrt(len(chosen) // len(pixels)), pixels)


FAST_VLM = Family(
    name="FastVLM",
    model_types=("fast_vlm",),
    status=f"{TESTED}; its vision tower needs timm, and convolutions show each token a margin around its cell; "
    "the model does not see what its crop cuts off",
    cells=_strided,
    pixel_mask=_strided_mask,
)


def _layer_features(arguments: Arguments) -> list[Tensor]:
    """What is added to image positions before some layers; their embeddings are zero."""
    return [*(arguments.get("deepstack_features") or {}).values()]


def _with_layer_features(arguments: Arguments, rows: list[Tensor]) -> Arguments:
    return {**arguments, "deepstack_features": dict(zip(arguments["deepstack_features"], rows, strict=True))}


def _layer_feature_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked[arguments["vision_mask"][..., 0]]


GRANITE4_VISION = Family(
    name="Granite 4 Vision",
    model_types=("granite4_vision",),
    status=f"{TESTED}; the tokens of a window of patches are queries over all of it",
    cells=_tiled,
    pixel_mask=_tiles_mask,
    extras=_layer_features,
    with_extras=_with_layer_features,
    extra_rows=_layer_feature_rows,
    logits=lambda text, logits: logits / text.logits_scaling,
)
