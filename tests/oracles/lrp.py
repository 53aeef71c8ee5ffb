"""A Qwen3-VL text decoder written out in float64, and layer-wise relevance propagation as changes to its backward pass.

Rules: None is the plain model; "attnlrp" and "cp" leave every value as it is and change gradients, so that gradient
times input is relevance.
"""

from __future__ import annotations

import torch

RULES = (None, "attnlrp", "cp")


def scaled(x, s):
    """x itself, with its gradient times s."""
    return x * s + (x * (1 - s)).detach()


def linear(module, x):
    y = x @ module.weight.detach().double().T
    if module.bias is not None:
        y = y + module.bias.detach().double()
    return y


def rms_norm(module, x, rule):
    factor = 1 / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + module.variance_epsilon)
    if rule is not None:
        factor = factor.detach()
    return x * factor * module.weight.detach().double()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + turned * sin


def attention(module, x, cos, sin, rule):
    """x (T,d), already normalised."""
    T, size = len(x), module.head_dim
    queries = linear(module.q_proj, x).view(T, -1, size)
    keys = linear(module.k_proj, x).view(T, -1, size)
    values = linear(module.v_proj, x).view(T, -1, size)
    heads = queries.shape[1]
    shared = heads // keys.shape[1]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    out = []
    for h in range(heads):
        q = rotate(rms_norm(module.q_norm, queries[:, h], rule), cos, sin)
        k = rotate(rms_norm(module.k_norm, keys[:, h // shared], rule), cos, sin)
        v = values[:, h // shared]
        if rule == "attnlrp":
            q, k, v = scaled(q, 1 / 4), scaled(k, 1 / 4), scaled(v, 1 / 2)
        if rule == "cp":
            q, k = q.detach(), k.detach()
        scores = (q @ k.T / size**0.5).masked_fill(future, -torch.inf)
        out.append(scores.softmax(dim=-1) @ v)
    return linear(module.o_proj, torch.cat(out, dim=-1))


def mlp(module, x, rule):
    """x (T,d), already normalised."""
    gate, up = linear(module.gate_proj, x), linear(module.up_proj, x)
    active = module.act_fn(gate)
    if rule == "attnlrp":
        linearised = gate * (active / (gate + 1e-10)).detach()
        active = linearised + (active - linearised).detach()
    if rule == "cp":
        active = active.detach()
    product = active * up
    if rule == "attnlrp":
        product = scaled(product, 1 / 2)
    return linear(module.down_proj, product)


def logits(decoder, head_weight, embeds, position_ids, deepstack, visual_mask, rule=None):
    """T,vocabulary for one sequence: embeds (T,d), position_ids (3,1,T), deepstack rows (n,d), visual_mask (T)."""
    assert rule in RULES
    x = embeds.double()
    cos, sin = decoder.rotary_emb(x[None], position_ids[-3:])
    cos, sin = cos[0].double(), sin[0].double()
    for l, layer in enumerate(decoder.layers):  # noqa: E741
        x = x + attention(layer.self_attn, rms_norm(layer.input_layernorm, x, rule), cos, sin, rule)
        x = x + mlp(layer.mlp, rms_norm(layer.post_attention_layernorm, x, rule), rule)
        if deepstack is not None and l < len(deepstack):
            added = torch.zeros_like(x)
            added[visual_mask] = deepstack[l].double()
            x = x + added
    return rms_norm(decoder.norm, x, rule) @ head_weight.detach().double().T


def relevance(decoder, head_weight, embeds, position_ids, deepstack, visual_mask, rule, chosen):
    """T: relevance of every position for the sum of chosen logits, pairs of a position and a token id.

    Leaves are the embeddings and, at the visual positions, what DeepStack adds.
    """
    embeds = embeds.detach().double().requires_grad_()
    deepstack = [rows.detach().double().requires_grad_() for rows in deepstack or []]
    out = logits(decoder, head_weight, embeds, position_ids, deepstack, visual_mask, rule)
    z = sum(out[position, token] for position, token in chosen)
    gradients = torch.autograd.grad(z, [embeds, *deepstack])
    total = (embeds * gradients[0]).sum(dim=-1).detach()
    for rows, gradient in zip(deepstack, gradients[1:], strict=True):
        total[visual_mask] += (rows * gradient).sum(dim=-1).detach()
    return total
