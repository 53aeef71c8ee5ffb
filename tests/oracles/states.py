"""Cached states of one forward pass, taken the plain way: eager attention and hooks on every norm."""

from __future__ import annotations

import torch


@torch.no_grad()
def cached_states(model, decoder, arguments):
    """V[l][i,h], a[l][h,j,i], x_attn[l][j], x_pre[l][j] and Wo[l][h], from the model's own modules."""
    layers = decoder.layers
    V, x_pre, x_attn, Wo, handles = [], [], [], [], []
    for layer in layers:
        handles += [
            layer.input_layernorm.register_forward_pre_hook(lambda m, a: x_pre.append(a[0][0].clone())),
            layer.post_attention_layernorm.register_forward_pre_hook(lambda m, a: x_attn.append(a[0][0].clone())),
            layer.self_attn.v_proj.register_forward_hook(lambda m, a, out: V.append(out[0].clone())),
        ]
    before = decoder.config._attn_implementation
    decoder.config._attn_implementation = "eager"
    try:
        attentions = decoder(**arguments, output_attentions=True).attentions
    finally:
        decoder.config._attn_implementation = before
        for handle in handles:
            handle.remove()
    config = decoder.config
    heads, size = config.num_attention_heads, config.head_dim
    shared = heads // config.num_key_value_heads
    T = len(x_pre[0])
    V = [v.view(T, -1, size).repeat_interleave(shared, dim=1) for v in V]
    for layer in layers:
        weight = layer.self_attn.o_proj.weight.detach()
        Wo.append([weight[:, h * size : (h + 1) * size].T for h in range(heads)])
    return V, [a[0] for a in attentions], x_attn, x_pre, Wo
