"""Gemma 3: a square of pooled patches per picture, norms on the residual branch, image tokens that see each other."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import ProcessorMixin

from ...errors import ModelError
from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid, square_mask


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
