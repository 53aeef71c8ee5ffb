"""Cached states of one forward pass, taken the plain way: eager attention and hooks on every norm."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from unittest import mock

import torch

from vtrace.lvlm.mixer import mixer_of, mixing_layers


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
    """The same for any family, and gates[l][j,h] of what the heads have read, or None.

    Attention is the eager function of the modelling file. The weights of a recurrent layer are found by running the
    slow, literal rule of the file with unit values. What a norm behind the projection does to each write is a diagonal
    matrix, which is in Wo, and a number for each receiver, which is in a.
    """
    decoder, states = lvlm.seam.decoder, _States()
    layers = mixing_layers(decoder)
    before = decoder.config._attn_implementation
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(states.enter, with_kwargs=True).remove)
            mixer = mixer_of(layer)
            stack.callback(mixer.projection.register_forward_hook(states.project).remove)
            if hasattr(mixer.module, "D"):
                stack.callback(mixer.module.norm.register_forward_hook(states.divide_gated).remove)
            elif hasattr(mixer.module, "A_log"):
                stack.callback(mixer.module.norm.register_forward_hook(states.divide).remove)
            elif hasattr(mixer.module, "in_proj"):
                hook = mixer.module.in_proj.register_forward_hook
                stack.callback(hook(lambda m, args, out, own=mixer.module: states.convolve(own, out)).remove)
            elif getattr(mixer.module, "q_proj", None):
                stack.callback(mixer.module.q_proj.register_forward_hook(states.query).remove)
        for file in {sys.modules[type(mixer_of(layer).module).__module__] for layer in layers}:
            for name, replace in _WATCHED:
                if own := getattr(file, name, None):
                    watch = getattr(states, replace)
                    stack.enter_context(mock.patch.object(file, name, lambda *a, w=watch, o=own, **k: w(o, *a, **k)))
        decoder.config._attn_implementation = "eager"
        stack.callback(setattr, decoder.config, "_attn_implementation", before)
        decoder(**encode())
    return _with_norms(decoder, lvlm.seam.family.branch_norm, states)


_WATCHED = (
    ("eager_attention_forward", "attend"),
    ("torch_chunk_gated_delta_rule", "recur"),
    ("mamba2_chunk_scan", "scan"),
)


class _States:
    """What hooks have seen of every layer of one sequence."""

    def __init__(self):
        self.V, self.a, self.x_pre, self.out, self.Wo, self.gates = [], [], [], [], [], []
        self.gate = None

    def enter(self, layer, args, kwargs):
        self.x_pre.append((args[0] if args else kwargs["hidden_states"])[0].clone())

    def project(self, projection, args, out):
        self.out.append(out[0].clone())
        if len(self.Wo) < len(self.V):
            parts = projection.weight.detach().split(self.V[-1].shape[-1], dim=1)
            self.Wo.append([part.T for part in parts])
        self.gates.append(self.gate)
        self.gate = None

    def query(self, module, args, out):
        self.gate = out[0]

    def attend(self, own, module, query, key, value, *args, **options):
        output, weights = own(module, query, key, value, *args, **options)
        heads, size = query.shape[1], value.shape[-1]
        self.V.append(value[0].repeat_interleave(heads // value.shape[1], dim=0).transpose(0, 1))
        self.a.append(weights[0].float())
        if self.gate is not None:
            whole = self.gate.view(len(self.gate), heads, -1)
            self.gate = whole[..., size:].sigmoid() if whole.shape[-1] == 2 * size else None
        return output, weights

    def recur(self, own, query, key, value, **options):
        T, heads = value.shape[1:3]
        units = torch.eye(T)[None, :, None].expand(1, T, heads, T)
        literal = sys.modules[own.__module__].torch_recurrent_gated_delta_rule
        self.V.append(value[0])
        self.a.append(literal(query, key, units, **options)[0][0].transpose(0, 1))
        return own(query, key, value, **options)

    def divide(self, norm, args, out):
        x, z = (arg.view(len(self.x_pre[-1]), -1, arg.shape[-1]) for arg in args)
        size = (x.pow(2).mean(-1, keepdim=True) + _epsilon(norm)).sqrt()
        self.gate = norm.weight * torch.nn.functional.silu(z) / size

    def scan(self, own, x, dt, A, B, C, D, dt_bias, dt_softplus, dt_limit, **options):
        """Position by position, with features that say which position they come from."""
        T, heads = x.shape[1:3]
        literal = sys.modules[own.__module__].mamba2_selective_state_update
        least = torch.nn.functional.softplus(dt + dt_bias).clamp(*dt_limit)[..., None].expand(-1, -1, -1, T)
        state, rows = torch.zeros(1, heads, T, B.shape[-1]), []
        for t in range(T):
            unit = torch.eye(T)[t].expand(1, heads, T)
            decay, skip = A[:, None, None].expand(heads, T, B.shape[-1]), D[:, None].expand(heads, T)
            rows.append(literal(state, unit, least[:, t], decay, B[:, t], C[:, t], skip)[0])
        self.V.append(x[0])
        self.a.append(torch.stack(rows, dim=1))
        return own(x, dt, A, B, C, D=D, dt_bias=dt_bias, dt_softplus=dt_softplus, dt_limit=dt_limit, **options)

    def divide_gated(self, norm, args, out):
        x, z = (arg[0] for arg in args)
        opened = torch.nn.functional.silu(z)
        parts = (x * opened).split(getattr(norm, "group_size", x.shape[-1]), dim=-1)
        sizes = [(part.pow(2).mean(-1, keepdim=True) + _epsilon(norm)).sqrt().expand_as(part) for part in parts]
        self.gate = (norm.weight * opened / torch.cat(sizes, dim=-1)).view(self.V[-1].shape)

    def convolve(self, module, out):
        """One head for each tap, which sees one position."""
        before, gate, x = out[0].chunk(3, dim=-1)
        taps = module.conv.weight[:, 0]  # feature by feature: of the position itself last
        count, T = taps.shape[1], len(x)
        self.V.append((before * x)[:, None].expand(-1, count, -1))
        self.a.append(torch.stack([torch.eye(T).roll(-t, 1).tril() for t in range(count)]))
        for t in range(1, count):
            self.a[-1][t, :t] = 0
        self.gate = gate[:, None].expand(-1, count, -1)
        weight = module.out_proj.weight.detach()
        self.Wo.append([torch.diag(taps[:, count - 1 - t]) @ weight.T for t in range(count)])


def _with_norms(decoder, branch_norm, states):
    x_attn = []
    for number, (layer, out, pre) in enumerate(zip(mixing_layers(decoder), states.out, states.x_pre, strict=True)):
        norm = getattr(layer, branch_norm, None) if branch_norm else None
        if norm is not None:  # y = x · w / rms(x): a diagonal matrix, and a number for each receiver
            scale = torch.stack([1 / (row.pow(2).mean() + _epsilon(norm)).sqrt() for row in out])
            diagonal = torch.diag(norm(torch.ones(1, out.shape[1]))[0] * (1 + _epsilon(norm)) ** 0.5)
            states.Wo[number] = [part @ diagonal for part in states.Wo[number]]
            states.a[number], out = states.a[number] * scale[None, :, None], norm(out)
        scale = getattr(layer, "residual_multiplier", 1.0)
        states.Wo[number] = [part * scale for part in states.Wo[number]]
        x_attn.append(pre + out * scale)
    gates = None if all(gate is None for gate in states.gates) else states.gates
    return (states.V, states.a, x_attn, states.x_pre, states.Wo), gates


def _epsilon(norm):
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
