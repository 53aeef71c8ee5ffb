"""Text-only decoders: prompt words are attributed; there is no picture, and so nothing to calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .family import Cell, Family, Size


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell | None]]:
    return []


def _pixel_mask(inputs: dict[str, Any], chosen: Tensor, config: Any) -> Tensor:
    return chosen


TEXT = Family(
    name="text-only decoders",
    model_types=("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"),
    status="proved on small random models, and seen on the pretrained SmolLM2-135M; prompt words only, uncalibrated",
    decoder=lambda model: model.model,
    cells=_cells,
    pixel_mask=_pixel_mask,
)
