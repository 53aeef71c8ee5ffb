"""What will run, and what it will need, before it runs: from the configuration alone, without weights."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import nn

from ..errors import ModelError
from ..lvlm.checkpoint import find_checkpoint, read_config, skeleton
from ..lvlm.families.family import Family
from ..lvlm.families.supported import family_of, has_pictures
from .attention import BLOCK_BYTES

PACKAGES = (
    "vtrace-attribution",
    "torch",
    "transformers",
    "numpy",
    "pillow",
    "torchvision",
    "accelerate",
    "bitsandbytes",
)
SIZES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0, "int4": 0.5}  # bytes of a weight


@dataclass(frozen=True)
class Requirements:
    """The cost of one explanation."""

    tokens: int
    parameters: int  # of the whole model
    decoder_parameters: int
    weights_bytes: int
    cache_bytes: int  # keys and values while the response is generated
    matrix_bytes: int  # W
    working_bytes: int  # activations of one pass and one block of attention rows
    total_bytes: int  # weights, and the larger of generating and explaining
    passes: str


def examine(name: str, tokens: int, dtype: str = "") -> dict[str, Any]:
    """Versions, device, family and cost as one JSON-ready dictionary. Loads no weights."""
    cuda = torch.cuda.is_available()
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "model": name,
    }
    try:
        config = read_config(find_checkpoint(name), name)
        family = family_of(config, name)
    except ModelError as error:
        return facts | {"supported": False, "status": str(error)}
    text = config.get_text_config()
    dtype = dtype if dtype in SIZES else _own_dtype(config) if cuda else "float32"
    return facts | {
        "supported": True,
        "dtype": dtype,
        "family": family.name,
        "status": family.status,
        "layers": text.num_hidden_layers,
        "heads": [text.num_attention_heads, text.num_key_value_heads],
        "context": text.max_position_embeddings,
        "fits_context": tokens <= text.max_position_embeddings,
        "plan": asdict(requirements_of(config, family, tokens, dtype, "cuda" if cuda else "cpu")),
    }


def requirements_of(config: Any, family: Family, tokens: int, dtype: str, device: str) -> Requirements:
    """Memory and passes of one explanation of `tokens` positions."""
    model, text = skeleton(config, family), config.get_text_config()
    decoder = family.decoder(model)
    item = SIZES[dtype] if SIZES[dtype] >= 2 else 2.0  # quantised models compute in half precision
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    weights = int(_weights(model, SIZES[dtype], item))
    cache = int(2 * text.num_hidden_layers * text.num_key_value_heads * size * tokens * item)
    matrix = 4 * tokens * tokens
    widest = max(getattr(text, "intermediate_size", 0) or 0, getattr(text, "moe_intermediate_size", 0) or 0)
    working = int(tokens * (6 * text.hidden_size + 3 * widest) * item) + 2 * BLOCK_BYTES[device]
    passes = "1 captured" + (" and 3 padded forward passes" if has_pictures(family) else " forward pass")
    return Requirements(
        tokens=tokens, parameters=_count(model), decoder_parameters=_count(decoder), weights_bytes=weights,
        cache_bytes=cache, matrix_bytes=matrix, working_bytes=working,
        total_bytes=weights + max(cache, matrix + working),
        passes=f"{passes}, and the generation of the response",
    )  # fmt: skip


def _weights(model: nn.Module, each: float, plain: float) -> float:
    """Bytes of the weights; only matrices of linear layers, but the one of the vocabulary, can be quantised."""
    total = _count(model)
    if each >= 2:
        return total * each
    head = model.get_output_embeddings()  # type: ignore[operator]
    packed = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    return packed * each + (total - packed) * plain


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _own_dtype(config: Any) -> str:
    found = str(getattr(config, "dtype", None) or config.get_text_config().dtype or "bfloat16").removeprefix("torch.")
    return found if found in SIZES else "bfloat16"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
