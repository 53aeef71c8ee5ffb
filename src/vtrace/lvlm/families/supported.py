"""Which model families are supported, and why others are refused."""

from __future__ import annotations

from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ...errors import ModelError
from .family import Family, ModelConfig
from .gemma import GEMMA3, GEMMA4
from .idefics import IDEFICS3
from .internvl import AYA_VISION, INTERNVL, OVIS2
from .llava import LLAVA, LLAVA_NEXT, LLAVA_ONEVISION
from .minicpm import MINICPM
from .padded_square import DEEPSEEK_VL
from .paligemma import PALIGEMMA
from .pixtral import PIXTRAL
from .qwen_vl import EXAONE, GLM_V, QWEN2_VL, QWEN3_5, QWEN3_VL, VIDEO_LLAMA3
from .text import TEXT_FAMILIES

FAMILIES = (
    QWEN3_VL, QWEN3_5, INTERNVL, QWEN2_VL, LLAVA, LLAVA_NEXT, LLAVA_ONEVISION, IDEFICS3, GEMMA3, GEMMA4, PALIGEMMA,
    PIXTRAL, GLM_V, EXAONE, VIDEO_LLAMA3, DEEPSEEK_VL, AYA_VISION, OVIS2, MINICPM, *TEXT_FAMILIES,
)  # fmt: skip
_CROSS = "pictures enter through cross-attention and have no positions in the sequence that could be scored"
_CAPPED = "its attention logits are soft-capped, so the softmax we recompute would differ from the model's"
_RESAMPLED = "its image tokens are queries over the whole picture, so no token corresponds to one place"
REFUSED: dict[str, str] = {  # reasons by model type
    "mllama": _CROSS,
    "idefics": _CROSS,
    "paligemma": f"PaliGemma 2 contains Gemma 2: {_CAPPED}",
    "blip-2": _RESAMPLED,
    "instructblip": _RESAMPLED,
    "idefics2": _RESAMPLED,
}


def has_pictures(family: Family) -> bool:
    return family not in TEXT_FAMILIES


def family_of(config: ModelConfig, name: str) -> Family:
    """The family of a configuration, or an error that says why there is none."""
    kind = config.model_type
    for family in FAMILIES:
        if kind in family.model_types and family.fits(config):
            return family
    if kind in REFUSED:
        raise ModelError(f"{name} is a {kind!r} model, which cannot be explained: {REFUSED[kind]}")
    sort = "model family" if kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES else "text-only model"
    raise ModelError(f"the {sort} {kind!r} of {name} is not supported yet; see: vtrace models")
