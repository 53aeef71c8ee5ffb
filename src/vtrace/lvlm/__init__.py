"""Models: `load` any supported checkpoint, from the hub, a folder, or the embedded ones by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ..errors import ModelError, first_line
from .family import Family
from .internvl import INTERNVL
from .processor import load_processor
from .qwen_vl import QWEN3_VL
from .revision import revision_of
from .seam import Seam

_SHIPPED = Path(__file__).parent.parent / "pinhole"
EMBEDDED = {"pinhole": _SHIPPED / "checkpoint", "pinhole-internvl": _SHIPPED / "checkpoint_internvl"}
FAMILIES = (QWEN3_VL, INTERNVL)
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Lvlm:
    """A model, its processor, and what is known about its family."""

    name: str
    model: Any
    processor: Any
    family: Family

    @property
    def seam(self) -> Seam:
        tokenizer = self.processor.tokenizer
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        return Seam(self.model, self.family, pad)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def context(self) -> int:
        """Longest sequence the decoder was made for."""
        return self.model.config.get_text_config().max_position_embeddings

    @property
    def image_token_id(self) -> int:
        return self.model.config.image_token_id

    @property
    def revision(self) -> str:
        """Tells apart models of the same name."""
        return revision_of(self.model)


def load(
    name: str | os.PathLike[str] = "pinhole", dtype: str | torch.dtype | None = None, device: str | None = None
) -> Lvlm:
    """Load a checkpoint. On a GPU it keeps its own dtype; on a CPU the default is float32.

    `name` is a hub id, a folder, or an embedded model ("pinhole", "pinhole-internvl").
    """
    name = str(name)
    source = str(EMBEDDED.get(name, name))
    family = family_of(read_config(source, name), name)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not device.startswith(("cpu", "cuda")):
        raise ModelError(f"device {device!r} is not supported, because path sums need float64; use cpu or cuda")
    dtype = dtype or ("auto" if device.startswith("cuda") else "float32")
    if isinstance(dtype, str) and dtype not in DTYPES:
        raise ModelError(f"unknown dtype {dtype!r}; use one of: {', '.join(DTYPES)}")
    try:
        model = AutoModelForImageTextToText.from_pretrained(source, dtype=dtype, attn_implementation="sdpa")
        processor = load_processor(source)
    except Exception as error:  # weights and configurations can be damaged in many ways
        raise ModelError(f"cannot load {name}: {first_line(error)}") from error
    if not hasattr(processor, "image_processor"):
        raise ModelError(f"{name} has no image processor; is its processor_config.json complete?")
    try:
        model = model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"cannot use device {device!r}: {first_line(error)}; try --device cpu") from error
    return Lvlm(name, model.eval(), processor, family)


def read_config(source: str, name: str) -> Any:
    """The configuration of a checkpoint, without its weights."""
    try:
        return AutoConfig.from_pretrained(source)
    except Exception as error:
        hint = "give a hub id, a folder with config.json, or one of: " + ", ".join(EMBEDDED)
        raise ModelError(f"cannot find the model {name!r} ({first_line(error)}); {hint}") from error


def family_of(config: Any, name: str) -> Family:
    """The family of a configuration, or an error that says why there is none."""
    for family in FAMILIES:
        if config.model_type in family.model_types:
            return family
    known = ", ".join(family.name for family in FAMILIES)
    if config.model_type not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise ModelError(f"{name} is a {config.model_type!r} model, which takes no pictures; choose one of: {known}")
    raise ModelError(f"the model family {config.model_type!r} of {name} is not supported yet; supported: {known}")
