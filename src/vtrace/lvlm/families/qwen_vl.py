"""Qwen2-VL to Qwen3.5, GLM-V and others: merged patches row-major over the picture, positions with several axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .family import (
    CONVOLVED,
    TESTED,
    Family,
    ModelConfig,
    PictureCells,
    ProcessorOutput,
    Size,
    deepstack,
    deepstack_rows,
    grid,
    with_deepstack,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    grids = inputs["image_grid_thw"].tolist()
    merges = _merges(inputs, config)
    return [[*grid(h // merge, w // merge, size)] for (_, h, w), merge, size in zip(grids, merges, sizes, strict=True)]


def _merges(inputs: ProcessorOutput, config: ModelConfig) -> list[int]:
    """Patches along one side of a token, for each picture."""
    if "image_merge_sizes" in inputs:  # Video-LLaMA 3
        return inputs["image_merge_sizes"].tolist()
    return [config.vision_config.spatial_merge_size] * len(inputs["image_grid_thw"])


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    """Patches are in the order of tokens, merge² consecutive ones for each."""
    import torch

    counts = [
        (int(shape.prod()) // merge**2, merge**2)
        for shape, merge in zip(inputs["image_grid_thw"], _merges(inputs, config), strict=True)
    ]
    each = torch.cat([torch.full((tokens,), patches, device=chosen.device) for tokens, patches in counts])
    return chosen.repeat_interleave(each).view(-1, *[1] * (inputs["pixel_values"].ndim - 1))


def row_major_mask(inputs: ProcessorOutput, chosen: Tensor, merge: int, shapes: str = "image_grid_thw") -> Tensor:
    """Patches are in rows of the whole picture, `merge` of them along one side of a token."""
    import torch

    done, parts = 0, []
    for *_, height, width in inputs[shapes].tolist():
        rows, columns = height // merge, width // merge
        tokens = chosen[done : done + rows * columns].view(rows, columns)
        done += rows * columns
        parts.append(tokens.repeat_interleave(merge, 0).repeat_interleave(merge, 1).flatten())
    return torch.cat(parts).view(-1, *[1] * (inputs["pixel_values"].ndim - 1))


QWEN3_VL = Family(
    name="Qwen3-VL, Qwen3-Omni and Cosmos 3",
    model_types=("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker", "cosmos3_omni"),
    status="dense: measured on the embedded Pinhole; MoE, Omni (its thinker, without sound) and Cosmos 3 (its "
    f"reasoner): {TESTED}",
    cells=_cells,
    pixel_mask=_pixel_mask,
    extras=deepstack,
    with_extras=with_deepstack,
    extra_rows=deepstack_rows,
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
    name="Qwen2-VL, 2.5-VL and 2.5-Omni",
    model_types=("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_thinker"),
    status=f"{TESTED}; Omni: its thinker, without sound",
    cells=_cells,
    pixel_mask=_pixel_mask,
    patch_embed=lambda model: model.model.visual.patch_embed,
)
GLM_V = Family(
    name="GLM-4.1V to 4.6V and GLM-OCR",
    model_types=("glm4v", "glm4v_moe", "glm46v", "glm_ocr", "glmga"),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    branch_norm="post_self_attn_layernorm",
    patch_embed=lambda model: model.model.visual.patch_embed,
)
EXAONE = Family(
    name="EXAONE 4.5",
    model_types=("exaone4_5",),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
    branch_norm="post_attention_layernorm",
    patch_embed=lambda model: model.model.visual.patch_embed,
)
HYPERCLOVAX = Family(
    name="HyperCLOVA X SEED",
    model_types=("hyperclovax_vision_v2",),
    status=f"{TESTED}; pictures only",
    cells=_cells,
    pixel_mask=_pixel_mask,
    branch_norm="post_norm1",
    logits=lambda text, logits: logits * text.logits_scaling,
)
VIDEO_LLAMA3 = Family(
    name="Video-LLaMA 3",
    model_types=("video_llama_3",),
    status=f"{TESTED}; pictures only",
    cells=_cells,
    pixel_mask=_pixel_mask,
)
ERNIE_VL = Family(
    name="ERNIE 4.5 VL",
    model_types=("ernie4_5_vl_moe",),
    status=TESTED,
    cells=_cells,
    pixel_mask=_pixel_mask,
)
PADDLEOCR_VL = Family(
    name="PaddleOCR-VL",
    model_types=("paddleocr_vl",),
    status=TESTED,
    cells=_cells,
    pixel_mask=lambda inputs, chosen, config: row_major_mask(inputs, chosen, config.vision_config.spatial_merge_size),
)
MINIMAX_M3 = Family(
    name="MiniMax-M3",
    model_types=("minimax_m3_vl",),
    status=f"{TESTED}; pictures only; pictures of one question see each other in the vision tower; its processor needs "
    "torchvision",
    cells=_cells,
    pixel_mask=_pixel_mask,
    patch_embed=lambda model: model.model.vision_tower.embeddings,
    pictures_mix=True,
)
