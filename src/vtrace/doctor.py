"""What will run, and what it will need, before it runs."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from .attention import BLOCK_BYTES
from .errors import ModelError
from .lvlm import family_of, locate, read_config

PACKAGES = ("vtrace-attribution", "torch", "transformers", "numpy", "pillow", "torchvision")


@dataclass(frozen=True)
class Plan:
    """The cost of one explanation, from the configuration alone."""

    tokens: int
    parameters: int  # of the text decoder
    weights_bytes: int
    matrix_bytes: int  # W
    working_bytes: int  # activations of one pass and one block of attention rows
    passes: str = "1 captured and 3 padded forward passes, and the generation of the response"


def examine(name: str, tokens: int) -> dict[str, Any]:
    """Versions, device, family and cost as one JSON-ready dictionary. Loads no weights."""
    cuda = torch.cuda.is_available()
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "dtype": "the checkpoint's" if cuda else "float32",
        "model": name,
    }
    try:
        source, where = locate(name)
        config = read_config(source, name, **where)
        family = family_of(config, name)
    except ModelError as error:
        return facts | {"supported": False, "status": str(error)}
    text = config.get_text_config()
    return facts | {
        "supported": True,
        "family": family.name,
        "status": family.status,
        "layers": text.num_hidden_layers,
        "heads": [text.num_attention_heads, text.num_key_value_heads],
        "context": text.max_position_embeddings,
        "fits_context": tokens <= text.max_position_embeddings,
        "plan": asdict(plan(text, tokens, "cuda" if cuda else "cpu")),
    }


def plan(text: Any, tokens: int, device: str) -> Plan:
    """Memory of one explanation of `tokens` positions: float32 on a CPU, half of that on a GPU."""
    item = 4 if device == "cpu" else 2
    width, inner = text.hidden_size, text.intermediate_size
    size = getattr(text, "head_dim", None) or width // text.num_attention_heads
    attention = width * size * (2 * text.num_attention_heads + 2 * text.num_key_value_heads)
    embeddings = text.vocab_size * width * (1 if text.tie_word_embeddings else 2)
    parameters = text.num_hidden_layers * (attention + 3 * width * inner) + embeddings
    activations = tokens * (6 * width + 3 * inner) * item
    return Plan(tokens, parameters, parameters * item, tokens * tokens * 4, activations + 2 * BLOCK_BYTES[device])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
