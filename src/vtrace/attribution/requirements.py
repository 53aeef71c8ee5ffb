"""What an explanation will need, estimated from the configuration alone, without weights."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NotRequired, TypedDict

import torch
from torch import nn

from ..errors import ModelError
from ..lvlm.batch_size import first_layer, workload_of
from ..lvlm.checkpoint import build_without_weights, read_config
from ..lvlm.checkpoint_source import reach_checkpoint
from ..lvlm.families.family import Family, ModelConfig, output_embedding
from ..lvlm.families.supported import has_pictures
from ..lvlm.load import starting_family
from ..lvlm.mixer import mixer_of, mixing_layers
from ..system.byte_count import parse_bytes
from ..system.peak_memory import memory_in_use
from .memory_plan import Device, plan_memory

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
TO_BE_PROBED = "probed when it is loaded, which finds out whether its decoder can be read and where image tokens look"
BYTES_PER_WEIGHT = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0, "int4": 0.5}


class Requirements(TypedDict):
    """The cost of one explanation, ready for JSON."""

    tokens: int
    parameters: int  # of the whole model
    decoder_parameters: int
    weights_bytes: int
    libraries_bytes: int  # Python and its libraries, as loaded in this process
    cache_bytes: int  # keys and values, and recurrent states, while the response is generated
    matrix_bytes: int  # the pairwise matrix W
    working_bytes: int  # activations of one pass, and buffers
    disk_bytes: int  # the file that holds W if it does not fit into the memory budget
    total_bytes: int  # libraries and weights, and the larger of generation and explanation
    passes: str


class Examination(TypedDict):
    """Facts about this machine and a model, ready for JSON. The last fields are present only for supported models."""

    python: str
    packages: dict[str, str | None]  # versions; None if not installed
    device: str
    model: str
    supported: bool
    status: str  # how support was verified, or why the model is refused
    dtype: NotRequired[str]
    family: NotRequired[str]
    layers: NotRequired[int]
    heads: NotRequired[list[int]]  # for queries, for keys and values
    context: NotRequired[int]
    fits_context: NotRequired[bool]
    plan: NotRequired[Requirements]


def examine(name: str, tokens: int, dtype: str = "", memory: str | int = "", asked: str = "") -> Examination:
    """Versions, device, family and cost of one explanation of `tokens` positions. Loads no weights.

    `memory` is a budget such as "4GB"; without it, there is no limit. `asked` is "auto" for a model that is
    to be probed.
    """
    budget = parse_bytes(memory) if memory else None
    cuda = torch.cuda.is_available()
    facts: Examination = {
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "model": name,
        "supported": False,
        "status": "",
    }
    try:
        config = read_config(reach_checkpoint(name), name)
        family = starting_family(config, name, asked)
    except ModelError as error:
        return {**facts, "status": str(error)}
    text = config.get_text_config()
    dtype = dtype if dtype in BYTES_PER_WEIGHT else _own_dtype(config) if cuda else "float32"
    return {
        **facts,
        "supported": True,
        "dtype": dtype,
        "family": family.name,
        "status": TO_BE_PROBED if family.probed else family.status,
        "layers": text.num_hidden_layers,
        "heads": [text.num_attention_heads, first_layer(text).num_key_value_heads],
        "context": text.max_position_embeddings,
        "fits_context": tokens <= text.max_position_embeddings,
        "plan": requirements_of(config, family, tokens, dtype, "cuda" if cuda else "cpu", budget),
    }


def requirements_of(
    config: ModelConfig, family: Family, tokens: int, dtype: str, device: Device, budget: int | None = None
) -> Requirements:
    """Memory and passes of one explanation of `tokens` positions."""
    model, text = build_without_weights(config, family), config.get_text_config()
    decoder = family.decoder(model)
    item = max(2.0, BYTES_PER_WEIGHT[dtype])  # quantised models compute in half precision
    work = workload_of(text, torch.float32 if item == 4 else torch.bfloat16)
    weights = int(_weights(model, BYTES_PER_WEIGHT[dtype], item))
    cache = sum(_cached(mixer_of(layer).module, tokens) for layer in mixing_layers(decoder)) * work.item
    libraries = memory_in_use(torch.device("cpu")) if device == "cpu" else 0
    plan = plan_memory(work, tokens, device, libraries + weights, budget)
    passes = "4 forward passes (1 instrumented)" if has_pictures(family) else "1 forward pass (instrumented)"
    return {
        "tokens": tokens,
        "parameters": _count(model),
        "decoder_parameters": _count(decoder),
        "weights_bytes": weights,
        "libraries_bytes": libraries,
        "cache_bytes": cache,
        "matrix_bytes": plan.matrix,
        "working_bytes": plan.working,
        "disk_bytes": plan.disk,
        "total_bytes": max(plan.in_use + cache, plan.total),
        "passes": f"{passes}, after the response has been generated",
    }


def _cached(module: Any, tokens: int) -> int:
    """Numbers that a layer keeps while the response is generated: keys and values, or the state of a hybrid layer."""
    if hasattr(module, "k_proj"):
        values = getattr(module, "v_proj", None) or module.k_proj  # some share one projection
        return tokens * (module.k_proj.out_features + values.out_features)
    if hasattr(module, "A_log"):  # keys by values for each head, and what its convolution reads
        if hasattr(module, "D"):  # Mamba
            state = module.num_heads * module.ssm_state_size * module.head_dim
        else:
            state = module.num_v_heads * module.head_k_dim * module.head_v_dim
        return state + module.conv1d.weight.numel()
    if hasattr(module, "conv"):
        return module.conv.weight.numel()
    return 0  # keys and values of another layer


def _weights(model: nn.Module, each: float, plain: float) -> float:
    """Bytes of the weights. Only matrices of linear layers, except that of the vocabulary, can be quantised."""
    total = _count(model)
    if each >= 2:
        return total * each
    head = output_embedding(model)
    packed = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    return packed * each + (total - packed) * plain


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _own_dtype(config: ModelConfig) -> str:
    found = str(getattr(config, "dtype", None) or config.get_text_config().dtype or "bfloat16").removeprefix("torch.")
    return found if found in BYTES_PER_WEIGHT else "bfloat16"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
