"""Qwen2-VL to Qwen3.5 and GLM-V: merged patches row-major over the resized picture, positions with several axes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from transformers import ProcessorMixin

from .family import CONVOLVED, TESTED, Arguments, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    merge = config.vision_config.spatial_merge_size
    grids = inputs["image_grid_thw"].tolist()
    return [[*grid(h // merge, w // merge, size)] for (_, h, w), size in zip(grids, sizes, strict=True)]


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """Patches are in the order of tokens, merge² consecutive ones for each."""
    return chosen.repeat_interleave(config.vision_config.spatial_merge_size**2)[:, None]


def _deepstack(arguments: Arguments) -> list[Tensor]:
    """DeepStack adds vision features to early layers, in addition to the embeddings."""
    return list(arguments.get("deepstack_visual_embeds") or [])


def _with_deepstack(arguments: Arguments, rows: list[Tensor]) -> Arguments:
    return {**arguments, "deepstack_visual_embeds": rows} if rows else arguments


def _deepstack_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked[arguments["visual_pos_masks"]]


QWEN3_VL = Family(
    name="Qwen3-VL",
    model_types=("qwen3_vl", "qwen3_vl_moe"),
    status=f"dense: measured on the embedded Pinhole; MoE: {TESTED}",
    cells=_cells,
    pixel_mask=_pixel_mask,
    extras=_deepstack,
    with_extras=_with_deepstack,
    extra_rows=_deepstack_rows,
    patch_embed=lambda model: model.model.visual.patch_embed,
)
QWEN3_5 = Family(
    name="Qwen3.5",
    model_types=("qwen3_5", "qwen3_5_moe"),
    status=f"{TESTED}; {CONVOLVED}",
    cells=_cells,
    pixel_mask=_pixel_mask,
    patch_embed=lambda model: model.model.visual.patch_embed,
)
QWEN2_VL = Family(
    name="Qwen2-VL and 2.5-VL",
    model_types=("qwen2_vl", "qwen2_5_vl"),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    patch_embed=lambda model: model.model.visual.patch_embed,
)
GLM_V = Family(
    name="GLM-4.1V and 4.5V",
    model_types=("glm4v", "glm4v_moe"),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    branch_norm="post_self_attn_layernorm",
    patch_embed=lambda model: model.model.visual.patch_embed,
)
