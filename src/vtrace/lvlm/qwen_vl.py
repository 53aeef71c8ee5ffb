"""Qwen3-VL: 2 x 2 merged patches row-major over the resized picture, M-RoPE, DeepStack."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .family import Arguments, Family


def _decoder(model: Any) -> Any:
    return model.model.language_model


def _grids(inputs: Any, config: Any) -> list[tuple[int, int]]:
    merge = config.vision_config.spatial_merge_size
    return [(int(h) // merge, int(w) // merge) for _, h, w in inputs["image_grid_thw"].tolist()]


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


def _erase(arguments: Arguments, masked: Tensor) -> Arguments:
    """DeepStack adds vision features to early layers whatever the embedding is: zero the masked rows."""
    if arguments.get("deepstack_visual_embeds") is None:
        return arguments
    rows = masked[arguments["visual_pos_masks"]]
    cleared = [layer.masked_fill(rows[:, None], 0) for layer in arguments["deepstack_visual_embeds"]]
    return {**arguments, "deepstack_visual_embeds": cleared}


QWEN3_VL = Family(
    name="Qwen3-VL",
    model_types=("qwen3_vl",),
    status="supported: measured on the embedded Pinhole; larger checkpoints load through the same code",
    decoder=_decoder,
    grids=_grids,
    repeat=_repeat,
    erase=_erase,
)
