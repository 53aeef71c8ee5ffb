"""Cached states of one forward pass, taken the plain way: eager attention and hooks on every norm."""

from __future__ import annotations

import sys
from unittest import mock

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


@torch.no_grad()
def literal_states(lvlm, encode):
    """The same for any family: arguments are encoded for eager attention, and what a norm behind the projection does
    to each write is in the writes: V keeps the values, and Wo becomes the writes' own projection per receiver."""
    decoder, name = lvlm.seam.decoder, lvlm.seam.family.branch_norm
    config = decoder.config
    outs, values, x_pre, handles = [], [], [], []
    for layer in decoder.layers:
        attention = layer.self_attn
        handles += [
            layer.input_layernorm.register_forward_pre_hook(lambda m, a: x_pre.append(a[0][0].clone())),
            attention.v_proj.register_forward_hook(lambda m, a, out: values.append(out[0].clone())),
            attention.o_proj.register_forward_hook(lambda m, a, out: outs.append(out[0].clone())),
        ]
    before = config._attn_implementation
    config._attn_implementation = "eager"
    try:
        attentions = [a[0] for a in decoder(**encode(), output_attentions=True).attentions]
    finally:
        config._attn_implementation = before
        for handle in handles:
            handle.remove()
    heads = config.num_attention_heads
    V, weights, x_attn, Wo = [], [], [], []
    for layer, a, value, out, pre in zip(decoder.layers, attentions, values, outs, x_pre, strict=True):
        o_proj, norm = layer.self_attn.o_proj, getattr(layer, name, None) if name else None
        size = o_proj.in_features // heads
        weight = o_proj.weight.detach()
        if norm is not None:  # y = x · w / rms(x): a diagonal matrix, and a number for each receiver
            scale = torch.stack([1 / (row.pow(2).mean() + _epsilon(norm)).sqrt() for row in out])
            diagonal = torch.diag(norm(torch.ones(1, len(weight)))[0] * (1 + _epsilon(norm)) ** 0.5)
            weight, a, out = diagonal @ weight, a * scale[None, :, None], norm(out)
        V.append(value.view(len(value), -1, size).repeat_interleave(heads * size // value.shape[1], dim=1))
        weights.append(a)
        x_attn.append(pre + out)
        Wo.append([weight[:, h * size : (h + 1) * size].T for h in range(heads)])
    return (V, weights, x_attn, x_pre, Wo), None


@torch.no_grad()
def hybrid_states(lvlm, encode):
    """The same for decoders with recurrent and gated layers, and the gates: the rule's weights are found by running
    the slow, literal rule of the modelling file with unit values."""
    decoder = lvlm.seam.decoder
    modelling = sys.modules[type(decoder).__module__]
    chunked, literal = (getattr(modelling, f"torch_{name}_gated_delta_rule") for name in ("chunk", "recurrent"))
    calls, x_pre, x_attn, handles, values, gates = [], [], [], [], {}, {}

    def rule(query, key, value, **options):
        calls.append((query, key, value, options))
        return chunked(query, key, value, **options)

    for number, layer in enumerate(decoder.layers):
        handles += [
            layer.input_layernorm.register_forward_pre_hook(lambda m, a: x_pre.append(a[0][0].clone())),
            layer.post_attention_layernorm.register_forward_pre_hook(lambda m, a: x_attn.append(a[0][0].clone())),
        ]
        if hasattr(layer, "linear_attn"):

            def divide(norm, args, out, number=number):
                x, z = (arg.view(len(x_pre[0]), -1, arg.shape[-1]) for arg in args)
                size = (x.pow(2).mean(-1, keepdim=True) + _epsilon(norm)).sqrt()
                gates[number] = norm.weight * torch.nn.functional.silu(z) / size

            handles.append(layer.linear_attn.norm.register_forward_hook(divide))
            continue
        heads, size = decoder.config.num_attention_heads, decoder.config.head_dim

        def split(m, args, out, number=number, heads=heads, size=size):
            gates[number] = out[0].view(-1, heads, 2 * size)[..., size:].sigmoid()

        def keep(m, args, out, number=number, heads=heads, size=size):
            v = out[0].view(len(out[0]), -1, size)
            values[number] = v.repeat_interleave(heads // v.shape[1], dim=1)

        handles += [
            layer.self_attn.q_proj.register_forward_hook(split),
            layer.self_attn.v_proj.register_forward_hook(keep),
        ]
    before = decoder.config._attn_implementation
    decoder.config._attn_implementation = "eager"
    try:
        with mock.patch.object(modelling, chunked.__name__, rule):
            attentions = iter(decoder(**encode(), output_attentions=True).attentions)
    finally:
        decoder.config._attn_implementation = before
        for handle in handles:
            handle.remove()
    V, weights, Wo, rules = [], [], [], iter(calls)
    for number, layer in enumerate(decoder.layers):
        if hasattr(layer, "linear_attn"):
            query, key, value, options = next(rules)
            T, heads = value.shape[1:3]
            units = torch.eye(T)[None, :, None].expand(1, T, heads, T)
            V.append(value[0])
            weights.append(literal(query, key, units, **options)[0][0].transpose(0, 1))
            projection, size = layer.linear_attn.out_proj, value.shape[-1]
        else:
            V.append(values[number])
            weights.append(next(attentions)[0])
            projection, size = layer.self_attn.o_proj, decoder.config.head_dim
        Wo.append([part.T for part in projection.weight.detach().split(size, dim=1)])
    return (V, weights, x_attn, x_pre, Wo), [gates[number] for number in range(len(decoder.layers))]


def _epsilon(norm):
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
