"""A model that is split over the processes of `torchrun`: each one holds some of the heads of every attention layer.

transformers splits the weights and adds up what the processes compute, so that the residual stream is whole in every
process. What is computed from the heads of this process only has to be added up too: see `Layer.whole`.
"""

from __future__ import annotations

import atexit
from typing import Any

import torch.distributed
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor, Shard

from ..errors import ModelError
from ..system.processes import process_count
from .checkpoint import build_without_weights
from .families.family import Family, ModelConfig

# How the parts of a decoder are split, for models without rules in transformers. Qwen3-VL has one, for its output
# embedding, which alone gives wrong logits (in 5.22.2) if that shares its weights with the input embedding.
_RULES = {
    "embed_tokens": "embedding_rowwise",
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.k_proj": "colwise",
    "layers.*.self_attn.v_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
    "layers.*.mlp.gate_proj": "colwise",
    "layers.*.mlp.up_proj": "colwise",
    "layers.*.mlp.down_proj": "rowwise",
}


def split_options(config: ModelConfig, family: Family, name: str) -> dict[str, Any]:
    """The arguments of `from_pretrained` that split a model over all processes."""
    count = process_count()
    if count < 2:
        raise ModelError(
            "tensor parallelism needs several processes; "
            "start them with: torchrun --nproc-per-node 2 -m vtrace.cli explain --device tensor-parallel …"
        )
    text = config.get_text_config()
    heads, groups = text.num_attention_heads, text.num_key_value_heads
    if heads % count or groups % count:
        raise ModelError(
            f"{name} cannot be split over {count} processes: it has {heads} attention heads and {groups} "
            "key-value heads; both must be multiples of the number of processes"
        )
    try:
        from transformers.distributed import DistributedConfig

        plan = DistributedConfig(tp_size=count, tp_plan=_missing_rules(config, family) or "auto")
    except (ImportError, TypeError) as error:  # older versions have no such class, or one without a plan
        raise ModelError("tensor parallelism needs a newer transformers; 5.22.2 is tested") from error
    atexit.register(_leave)
    return {"distributed_config": plan}


def _leave() -> None:
    """End the threads that exchange results: Python would abort if they still ran at its end."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _missing_rules(config: ModelConfig, family: Family) -> dict[str, str]:
    """Our rules if transformers has none for the attention of this model."""
    model: Any = build_without_weights(config, family)
    decoder = family.decoder(model)
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    rules = {f"{prefix}.{part}": style for part, style in _RULES.items()}
    return {} if f"{prefix}.layers.*.self_attn.o_proj" in model.tp_plan else rules


def head_group(projection: Any) -> ProcessGroup | None:
    """The processes that the heads before an output projection are split over; None if all of them are here."""
    weight = getattr(projection, "weight", None)
    if not isinstance(weight, DTensor):
        return None
    if tuple(weight.placements) != (Shard(1),):
        raise ModelError(f"the output projection of a layer is split in a way that cannot be read: {weight.placements}")
    return weight.device_mesh.get_group()


def least_of(number: int, group: ProcessGroup, device: torch.device) -> int:
    """The smallest of the numbers that the processes of a group have."""
    found = torch.tensor(number, device=device)
    torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MIN, group)
    return int(found)
