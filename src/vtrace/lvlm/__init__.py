"""Models: `load` any supported checkpoint, from the hub, a folder, or the embedded ones by name."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ..errors import ModelError, first_line
from .family import Family
from .gemma import GEMMA3
from .idefics import IDEFICS3
from .internvl import INTERNVL
from .llava import LLAVA, LLAVA_NEXT, LLAVA_ONEVISION
from .paligemma import PALIGEMMA
from .pixtral import PIXTRAL
from .processor import load_processor, load_text_processor
from .qwen_vl import GLM_V, QWEN2_VL, QWEN3_VL
from .revision import revision_of
from .seam import Seam
from .text import TEXT

_SHIPPED = Path(__file__).parent.parent / "pinhole"
EMBEDDED = {"pinhole": _SHIPPED / "checkpoint", "pinhole-internvl": _SHIPPED / "checkpoint_internvl"}
FAMILIES = (
    QWEN3_VL, INTERNVL, QWEN2_VL, LLAVA, LLAVA_NEXT, LLAVA_ONEVISION, IDEFICS3, GEMMA3, PALIGEMMA, PIXTRAL, GLM_V, TEXT,
)  # fmt: skip
_CROSS = "pictures reach it through cross-attention and have no positions in the sequence that could be scored"
_LINEAR = "some of its layers have no attention weights, so what they move between positions cannot be traced"
_CAPPED = "it caps its attention logits, and the captured softmax would not be the model's"
_RESAMPLED = "its image tokens are queries over the whole picture, so no token shows one place"
REFUSED = {  # why, by model type
    "mllama": _CROSS,
    "idefics": _CROSS,
    "gemma2": _CAPPED,
    "gpt_oss": "its attention has sinks: weights that go to no position, which the method does not account for",
    "paligemma": f"PaliGemma 2 has Gemma 2 inside: {_CAPPED}",
    "qwen3_next": _LINEAR,
    "qwen3_5": _LINEAR,
    "qwen3_5_moe": _LINEAR,
    "blip-2": _RESAMPLED,
    "instructblip": _RESAMPLED,
    "idefics2": _RESAMPLED,
}
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "int4")
SPREAD = ("auto", "balanced", "sequential")  # over all devices, by accelerate


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
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def context(self) -> int:
        """Longest sequence the decoder was made for."""
        return self.model.config.get_text_config().max_position_embeddings

    @property
    def image_token_id(self) -> int | None:
        """None for a model without pictures."""
        return getattr(self.model.config, "image_token_id", None)

    @property
    def revision(self) -> str:
        """Tells apart models of the same name."""
        return revision_of(self.model)


def load(
    name: str | os.PathLike[str] = "pinhole", dtype: str | torch.dtype | None = None,
    device: str | dict[str, Any] | None = None, revision: str | None = None,
) -> Lvlm:  # fmt: skip
    """Load a checkpoint. On a GPU it keeps its own dtype; on a CPU the default is float32.

    `name` is a hub id, a folder, or an embedded model ("pinhole"); a hub id can end in a
    revision, as in "Qwen/Qwen3-VL-8B-Instruct@main". `dtype` "int8" and "int4" quantise the weights. `device`
    "auto" spreads them over all GPUs, and a dictionary says where each module goes.
    """
    name = f"{name}@{revision}" if revision else str(name)
    source, where = locate(name)
    family = family_of(read_config(source, name, **where), name)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    spread = isinstance(device, dict) or device in SPREAD
    if not spread and not str(device).startswith(("cpu", "cuda")):
        raise ModelError(
            f"device {device!r} is not supported, because path sums need float64; use cpu, cuda, or auto for all GPUs"
        )
    dtype = dtype or ("float32" if device == "cpu" else "auto")
    if isinstance(dtype, str) and dtype not in DTYPES:
        raise ModelError(f"unknown dtype {dtype!r}; use one of: {', '.join(DTYPES)}")
    packed = _quantisation(dtype)
    placed = {"device_map": device if spread else {"": device}} if packed or spread else {}
    try:
        model = _auto(family).from_pretrained(
            source, dtype="auto" if packed else dtype, attn_implementation="sdpa", **packed, **placed, **where
        )
        read = load_processor if has_pictures(family) else load_text_processor
        processor: Any = read(source, model.config.model_type, **where)
    except Exception as error:  # weights and configurations can be damaged in many ways
        raise ModelError(f"cannot load {name}: {_reason(error)}") from error
    if has_pictures(family) and not hasattr(processor, "image_processor"):
        raise ModelError(f"{name} has no image processor; is its processor_config.json complete?")
    if family.chat_template and not processor.chat_template:
        processor.chat_template = family.chat_template
    try:
        model = model if placed else model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"cannot use device {device!r}: {first_line(error)}; try --device cpu") from error
    return Lvlm(name, model.eval(), processor, family)


def _quantisation(dtype: str | torch.dtype) -> dict[str, Any]:
    """What `from_pretrained` has to be told to quantise; nothing for ordinary dtypes."""
    if dtype not in ("int8", "int4"):
        return {}
    if missing := [package for package in ("bitsandbytes", "accelerate") if find_spec(package) is None]:
        raise ModelError(
            f"dtype {dtype} needs {missing[0]}; install it with: pip install 'vtrace-attribution[quantised]'"
        )
    from transformers import BitsAndBytesConfig

    logging.getLogger("bitsandbytes.autograd._functions").addFilter(_not_the_cast)
    options: dict[str, Any] = {"load_in_8bit": True} if dtype == "int8" else {"load_in_4bit": True}
    if dtype == "int4":
        options |= {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}
    return {"quantization_config": BitsAndBytesConfig(**options)}


def _not_the_cast(record: logging.LogRecord) -> bool:
    """What int8 does to every input of every layer is no news the second time, and was asked for the first."""
    return not str(record.msg).startswith("MatMul8bitLt: inputs will be cast")


def locate(name: str) -> tuple[str, dict[str, str]]:
    """Where a checkpoint is: folder or hub id, and its revision where the name has one."""
    if name in EMBEDDED or Path(name).exists():
        return str(EMBEDDED.get(name, name)), {}
    source, _, revision = name.partition("@")
    return source, {"revision": revision} if revision else {}


def read_config(source: str, name: str, **where: str) -> Any:
    """The configuration of a checkpoint, without its weights."""
    try:
        return AutoConfig.from_pretrained(source, **where)
    except Exception as error:
        hint = "give a hub id, a folder with config.json, or one of: " + ", ".join(EMBEDDED)
        raise ModelError(f"cannot find the model {name!r} ({_reason(error)}); {hint}") from error


def _reason(error: Exception) -> str:
    """What went wrong, in a line; the hub's own words for a gated model hide what to do."""
    if "gated repo" in str(error) or "GatedRepo" in type(error).__name__:
        return "its owner asks for agreement first; accept the terms on its page, then run: hf auth login"
    return first_line(error)


def has_pictures(family: Family) -> bool:
    return family is not TEXT


def skeleton(config: Any, family: Family) -> Any:
    """The model of a configuration with shapes instead of weights: nothing is allocated."""
    with torch.device("meta"):
        return _auto(family).from_config(config)


def _auto(family: Family) -> Any:
    return AutoModelForImageTextToText if has_pictures(family) else AutoModelForCausalLM


def family_of(config: Any, name: str) -> Family:
    """The family of a configuration, or an error that says why there is none."""
    kind = config.model_type
    for family in FAMILIES:
        if kind in family.model_types and family.fits(config):
            return family
    if kind in REFUSED:
        raise ModelError(f"{name} is a {kind!r} model, which cannot be explained: {REFUSED[kind]}")
    sort = "model family" if kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES else "text-only model"
    raise ModelError(f"the {sort} {kind!r} of {name} is not supported yet; see: vtrace models")
