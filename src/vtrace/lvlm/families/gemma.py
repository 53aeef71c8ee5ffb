"""Gemma 3: a square of pooled patches a picture, norms on the residual branch, image tokens that see each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...errors import ModelError
from .family import Cell, Family, Size, grid, squares


def _side(config: Any) -> int:
    return int(config.mm_tokens_per_image**0.5)


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell | None]]:
    if len(inputs["pixel_values"]) != len(sizes):
        raise ModelError("Gemma 3 with pan and scan is not supported; load its processor with do_pan_and_scan=False")
    side = _side(config)
    return [[*grid(side, side, size)] for size in sizes]


def _pixel_mask(inputs: dict[str, Any], chosen: Tensor, config: Any) -> Tensor:
    return squares(chosen, _side(config), inputs["pixel_values"])


GEMMA3 = Family(
    name="Gemma 3",
    model_types=("gemma3",),
    status="proved on small random models; what an image token reads from later ones of its picture is on no path",
    decoder=lambda model: model.model.language_model,
    cells=_cells,
    pixel_mask=_pixel_mask,
    branch_norm="post_attention_layernorm",
)
