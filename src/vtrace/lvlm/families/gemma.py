"""Gemma 3 and 4: pooled patches, norms on the residual branch, image tokens that may see each other.

Gemma 4 also gives every layer an embedding of each token of its own, which is hidden with the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ModelError
from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid, soft_capped, square_mask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _side(config: ModelConfig) -> int:
    return int(config.mm_tokens_per_image**0.5)


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    if len(inputs["pixel_values"]) != len(sizes):
        raise ModelError("Gemma 3 with pan and scan is not supported; load its processor with do_pan_and_scan=False")
    side = _side(config)
    return [[*grid(side, side, size)] for size in sizes]


GEMMA3 = Family(
    name="Gemma 3",
    model_types=("gemma3",),
    status=f"{TESTED}; attention from an image token to later ones of its picture is not followed",
    cells=_cells,
    pixel_mask=square_mask(_side),
    branch_norm="post_attention_layernorm",
)


def _grids(inputs: ProcessorOutput, config: ModelConfig) -> list[tuple[int, int]]:
    """Rows and columns of tokens of each picture; patches have places, and padding has none."""
    pool = config.vision_config.pooling_kernel_size
    ends = inputs["image_position_ids"].amax(1) + 1
    return [(rows // pool, columns // pool) for columns, rows in ends.tolist()]


def _pooled_cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    return [[*grid(*shape, size)] for shape, size in zip(_grids(inputs, config), sizes, strict=True)]


def _patch_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """A mask of patches: pictures, patches, 1."""
    import torch

    pool, places, done = config.vision_config.pooling_kernel_size, inputs["image_position_ids"], 0
    mask = torch.zeros(places.shape[:2], dtype=torch.bool, device=chosen.device)
    for own, where, (rows, columns) in zip(mask, places, _grids(inputs, config), strict=True):
        real = (where >= 0).all(-1)
        token = (where[real, 1] // pool) * columns + where[real, 0] // pool
        own[real] = chosen[done : done + rows * columns][token]
        done += rows * columns
    return mask[..., None]


def _layer_inputs(decoder: Any, ids: Tensor) -> dict[str, Tensor]:
    """An embedding of each token for every layer: tokens, layers, features."""
    if not decoder.config.hidden_size_per_layer_input:
        return {}
    return {"per_layer_inputs": decoder.get_per_layer_inputs(ids[None], None)[0].detach()}


GEMMA4 = Family(
    name="Gemma 4",
    model_types=("gemma4",),
    status=f"{TESTED}; attention from an image token to later ones of its picture is not followed",
    cells=_pooled_cells,
    pixel_mask=_patch_mask,
    branch_norm="post_attention_layernorm",
    token_inputs=_layer_inputs,
    logits=soft_capped,
)
