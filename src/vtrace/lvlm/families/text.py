"""Text-only decoders: responses are attributed to prompt words; without a picture there is nothing to calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .family import CONVOLVED, TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, soft_capped

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    return []


def _pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
    return chosen


TEXT = Family(
    name="text-only decoders",
    model_types=("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"),
    status=f"{TESTED} and on the pretrained SmolLM2-135M; prompt words only, without calibration",
    decoder=lambda model: model.model,
    cells=_cells,
    pixel_mask=_pixel_mask,
)
HYBRID_TEXT = replace(
    TEXT,
    name="hybrid text-only decoders",
    model_types=("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "lfm2", "lfm2_moe"),
    status=f"{TESTED}; prompt words only, without calibration; {CONVOLVED}",
)
_EAGER = f"{TESTED}; prompt words only, without calibration; passes that are not instrumented use eager attention"
STATE_SPACE_TEXT = replace(
    HYBRID_TEXT,
    name="text-only decoders with Mamba-2",
    model_types=("nemotron_h", "bamba", "granitemoehybrid"),
    logits=lambda text, logits: logits / getattr(text, "logits_scaling", 1.0),  # Granite's
)
CAPPED_TEXT = replace(
    TEXT,
    name="text-only decoders with soft-capped logits",
    model_types=("gemma2",),
    status=_EAGER,
    branch_norm="post_attention_layernorm",
    logits=soft_capped,
    kernel="eager",
)
SINK_TEXT = replace(
    TEXT,
    name="text-only decoders with attention sinks",
    model_types=("gpt_oss",),
    status=f"{_EAGER}; what flows into a sink is credited to no position",
    kernel="eager",
)
TEXT_FAMILIES = (TEXT, HYBRID_TEXT, STATE_SPACE_TEXT, CAPPED_TEXT, SINK_TEXT)
