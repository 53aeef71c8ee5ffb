"""Models: `load` any supported checkpoint, from the hub, a folder, or the embedded ones by name."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import Any

import torch

from ..errors import ModelError, first_line
from .checkpoint import auto_class, find_checkpoint, read_config, reason
from .families.supported import family_of, has_pictures
from .model import Lvlm
from .processor import load_processor, load_text_processor

DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "int4")
SPREAD = ("auto", "balanced", "sequential")  # over all devices, by accelerate


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
    found = find_checkpoint(name)
    family = family_of(read_config(found, name), name)
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
        model = auto_class(family).from_pretrained(
            found.source,
            dtype="auto" if packed else dtype,
            attn_implementation="sdpa",
            **packed,
            **placed,
            **found.options,
        )
        read = load_processor if has_pictures(family) else load_text_processor
        processor: Any = read(found.source, model.config.model_type, **found.options)
    except Exception as error:  # weights and configurations can be damaged in many ways
        raise ModelError(f"cannot load {name}: {reason(error)}") from error
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
