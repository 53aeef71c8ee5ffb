"""How many sequences are decoded at once: what fits into the memory of a GPU, or into the cache of a CPU."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .families.family import ModelConfig

CPU_TOKENS = 1024  # larger batches are not faster on a CPU: their activations leave the cache
_SHARE = 0.5  # of free memory: estimates are rough, and the allocator and the vision tower need some too


class Workload(NamedTuple):
    """The sizes of a decoder that decide how much memory a sequence needs."""

    width: int
    inner: int  # of the MLP, or of all experts of a token
    layers: int
    heads: int
    queries: int  # width of queries
    cached: int  # width of keys, and of values
    vocabulary: int
    item: int  # bytes of a number


def workload_of(config: ModelConfig, dtype: torch.dtype) -> Workload:
    """The sizes of a decoder with this configuration."""
    layer = first_layer(config)
    size = getattr(layer, "head_dim", None) or config.hidden_size // config.num_attention_heads
    experts = getattr(config, "num_experts_per_tok", 0) or 0
    of_experts = experts * _widest(config, "moe_intermediate_size")
    return Workload(
        config.hidden_size,
        max(_widest(config, "intermediate_size"), of_experts),
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_attention_heads * size,
        layer.num_key_value_heads * size,
        config.vocab_size,
        max(2, dtype.itemsize),  # quantised models compute in half precision
    )


def first_layer(config: ModelConfig) -> ModelConfig:
    """What is set for the first layer, in decoders whose layers differ in size."""
    layers = getattr(config, "per_layer_config", None)
    return layers[0] if layers else config


def _widest(config: ModelConfig, name: str) -> int:
    """A width, or the largest of several."""
    found = getattr(config, name, 0) or 0
    return max(found) if isinstance(found, (list, tuple)) else found


def sequence_bytes(work: Workload, length: int, predicted: int = 0, graph: bool = False) -> int:
    """Peak memory of one sequence in a pass, without weights.

    `predicted` tokens have all their logits kept. A pass with a `graph` keeps the activations of every layer and its
    attention maps; other passes keep one layer, and the keys and values of all.
    """
    layer = length * (6 * work.width + 3 * work.inner) * work.item
    logits = predicted * work.vocabulary * 16  # in float32, and their softmax in float64
    if graph:
        return logits + work.layers * (2 * layer + 4 * work.heads * length * length * work.item)
    return logits + layer + 2 * work.layers * length * work.cached * work.item


def sequences_at_once(length: int, each: int, free: int | None) -> int:
    """How many sequences of this length, which need `each` bytes, are decoded together: at least one.

    `free` is the free memory of a GPU in bytes; None on a CPU.
    """
    if free is None:
        return max(1, CPU_TOKENS // length)
    return max(1, int(_SHARE * free) // each)


def free_memory(device: torch.device) -> int | None:
    """Free bytes of a GPU, including what PyTorch has reserved and not used; None on a CPU."""
    if device.type != "cuda":
        return None
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused
