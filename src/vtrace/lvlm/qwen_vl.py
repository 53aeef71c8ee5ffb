"""Qwen3-VL: 2 x 2 merged patches row-major over the resized picture, M-RoPE, DeepStack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .family import Arguments, Cell, Family, Size, grid


def _decoder(model: Any) -> Any:
    return model.model.language_model


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell]]:
    merge = config.vision_config.spatial_merge_size
    grids = inputs["image_grid_thw"].tolist()
    return [grid(h // merge, w // merge, size) for (_, h, w), size in zip(grids, sizes, strict=True)]


def _repeat(arguments: Arguments, copies: int) -> Arguments:
    """Batch axis by argument: second for M-RoPE positions, flattened with the tokens for DeepStack rows."""
    out = dict(arguments)
    for name in ("inputs_embeds", "attention_mask", "visual_pos_masks"):
        if isinstance(tensor := arguments.get(name), Tensor):
            out[name] = tensor.expand(copies, *tensor.shape[1:])
    if isinstance(positions := arguments.get("position_ids"), Tensor):
        out["position_ids"] = positions.expand(positions.shape[0], copies, -1)
    if arguments.get("deepstack_visual_embeds") is not None:
        out["deepstack_visual_embeds"] = [rows.repeat(copies, 1) for rows in arguments["deepstack_visual_embeds"]]
    return out


def _extras(arguments: Arguments) -> list[Tensor]:
    """DeepStack adds vision features to early layers, whatever the embedding is."""
    return list(arguments.get("deepstack_visual_embeds") or [])


def _with_extras(arguments: Arguments, rows: list[Tensor]) -> Arguments:
    return {**arguments, "deepstack_visual_embeds": rows} if rows else arguments


def _extra_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked[arguments["visual_pos_masks"]]


def _mix_pixels(pixels: Tensor, others: Tensor, chosen: Tensor, config: Any) -> Tensor:
    """Patches stand in the order of tokens, merge² in a row for each."""
    rows = chosen.to(pixels.device).repeat_interleave(config.vision_config.spatial_merge_size**2)
    return pixels.where(~rows[:, None], others)


QWEN3_VL = Family(
    name="Qwen3-VL",
    model_types=("qwen3_vl",),
    status="supported: measured on the embedded Pinhole; larger checkpoints load through the same code",
    decoder=_decoder,
    cells=_cells,
    mix_pixels=_mix_pixels,
    repeat=_repeat,
    extras=_extras,
    with_extras=_with_extras,
    extra_rows=_extra_rows,
    patch_embed=lambda model: model.model.visual.patch_embed,
)
