"""Small checkpoints of hybrid decoders: most layers mix positions without softmax."""

from __future__ import annotations

from support.family_parts import MOE
from support.qwen_families import QWEN3_VISION, qwen

DELTA = dict(
    num_hidden_layers=3,
    layer_types=["linear_attention", "full_attention", "linear_attention"],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=16,
    linear_value_head_dim=8,
    rope_parameters=dict(
        rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1], mrope_interleaved=True, partial_rotary_factor=0.5
    ),
)
CONVOLUTIONS = dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3)
NEMOTRON = dict(  # every kind of layer alone, and two groups of heads
    layers_block_type=["linear_attention", "mlp", "full_attention", "moe", "linear_attention"],
    mamba_num_heads=4,
    mamba_head_dim=8,
    ssm_state_size=16,
    n_groups=2,
    chunk_size=16,
    n_routed_experts=4,
    moe_intermediate_size=32,
    moe_shared_expert_intermediate_size=32,
)
MAMBA = dict(num_hidden_layers=3, mamba_n_heads=4, mamba_d_head=24, mamba_d_state=16, mamba_chunk_size=16)
_VISION = {name: value for name, value in QWEN3_VISION.items() if name != "deepstack_visual_indexes"}


def qwen3_5():
    return qwen("Qwen3_5", {**_VISION}, {**DELTA}, "Qwen3VLProcessor")


def qwen3_5_moe():
    return qwen("Qwen3_5Moe", {**_VISION}, DELTA | MOE | dict(shared_expert_intermediate_size=32), "Qwen3VLProcessor")
