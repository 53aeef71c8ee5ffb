"""Which model families are supported, and why others are refused."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...errors import ModelError
from .family import Family, ModelConfig
from .gemma import GEMMA3, GEMMA4
from .idefics import IDEFICS3
from .internvl import AYA_VISION, COHERE2_VISION, INTERNVL, OVIS2, PERCEPTION_LM
from .kimi import KIMI
from .lfm2_vl import LFM2_VL
from .llama4 import LLAMA4
from .llava import FAST_VLM, GRANITE4_VISION, LLAVA, LLAVA_NEXT, LLAVA_ONEVISION
from .minicpm import MINICPM
from .molmo import MOLMO2, MOLMO2_O
from .nemotron import NEMOTRON_OMNI
from .padded_square import DEEPSEEK_VL
from .paligemma import PALIGEMMA, PALIGEMMA2
from .pixtral import MISTRAL_LARGE4, PIXTRAL
from .qwen_vl import (
    ERNIE_VL,
    EXAONE,
    GLM_V,
    HYPERCLOVAX,
    MINIMAX_M3,
    PADDLEOCR_VL,
    QWEN2_VL,
    QWEN3_5,
    QWEN3_VL,
    VIDEO_LLAMA3,
)
from .refused import OPEN, REFUSED
from .text import TEXT_FAMILIES

FAMILIES = (
    QWEN3_VL, QWEN3_5, INTERNVL, QWEN2_VL, LLAVA, LLAVA_NEXT, LLAVA_ONEVISION, IDEFICS3, GEMMA3, GEMMA4, PALIGEMMA,
    PALIGEMMA2, PIXTRAL, GLM_V, ERNIE_VL, PADDLEOCR_VL, EXAONE, HYPERCLOVAX, VIDEO_LLAMA3, DEEPSEEK_VL, AYA_VISION,
    OVIS2, MINICPM, LLAMA4, COHERE2_VISION, GRANITE4_VISION, FAST_VLM, PERCEPTION_LM, KIMI, MOLMO2, MOLMO2_O,
    LFM2_VL, NEMOTRON_OMNI, MISTRAL_LARGE4, MINIMAX_M3, *TEXT_FAMILIES,
)  # fmt: skip
_TRY = "; or try --family auto, which finds out where its image tokens look"
_NEWER = "newer than this version of VTrace, which does not describe it"


class ModelTypeStatus(NamedTuple):
    """What is known about one image-text model type of the installed transformers."""

    model_type: str
    supported: bool
    family: str  # empty if there is none
    status: str  # how support was verified, or why there is none


def image_text_types() -> list[ModelTypeStatus]:
    """Every image-text model type that the installed transformers lists."""
    families = {kind: family for family in reversed(FAMILIES) for kind in family.model_types if has_pictures(family)}
    return [
        ModelTypeStatus(kind, True, families[kind].name, families[kind].status)
        if kind in families
        else ModelTypeStatus(kind, False, "", REFUSED.get(kind, _NEWER))
        for kind in listed_types()
    ]


@cache
def listed_types() -> tuple[str, ...]:
    """Image-text model types in the source of the installed transformers, which takes seconds to import."""
    spec = find_spec("transformers")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise ModelError("transformers is not installed; install it with: pip install transformers")
    source = (Path(folders[0]) / "models" / "auto" / "modeling_auto.py").read_text("utf-8")
    _, _, found = source.partition("\nMODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES = OrderedDict(")
    try:
        return tuple(dict(ast.literal_eval(found.partition("\n)")[0].strip())))
    except (SyntaxError, ValueError):  # written in another way: only importing it tells
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as names

        return tuple(names)


def has_pictures(family: Family) -> bool:
    return family not in TEXT_FAMILIES


def family_of(config: ModelConfig, name: str) -> Family:
    """The family of a configuration, or an error that says why there is none."""
    kind = config.model_type
    for family in FAMILIES:
        if kind in family.model_types and family.fits(config):
            return family
    if kind in REFUSED:
        reason = REFUSED[kind] + (_TRY if REFUSED[kind] in OPEN else "")
        raise ModelError(f"{name} is a {kind!r} model, which cannot be explained: {reason}")
    if kind in listed_types():
        raise ModelError(f"{name} is a {kind!r} model, which is {_NEWER}; update VTrace{_TRY}")
    raise ModelError(f"the text-only model {kind!r} of {name} is not supported yet; see: vtrace models")
