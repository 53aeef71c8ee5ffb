"""What tests of methods share."""

from __future__ import annotations

import torch

from vtrace.attribution.attention import attention_rows
from vtrace.lvlm.mixer import mixer_of
from vtrace.methods.registry import METHODS
from vtrace.tracing.prompt import encode_trace, trace_inputs
from vtrace.tracing.targets import find_target


def run(name, session, spec="response", **options):
    return METHODS[name].run(session, find_target(session.trace, spec), **options)


def close(found, expected, rtol=1e-4, atol=1e-5):
    found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol * float(expected.abs().max()))


def maps_of(layer) -> torch.Tensor:
    """All weights of a layer at once."""
    (block,) = attention_rows(layer)
    return block.weights.clone()


def check_writes(lvlm, layers):
    """The writes of all heads and sources add up to the update of every layer."""
    for layer, module in zip(layers, lvlm.seam.layers, strict=True):
        heads, size, length = layer.heads, layer.size, len(layer.update)
        value = layer.value.repeat_interleave(heads // len(layer.value), dim=0)
        gate = torch.ones(length, heads, size) if layer.gate is None else layer.gate
        written = sum(
            (maps_of(layer)[h] @ value[h] * gate[:, h]) @ layer.projection[:, h * size : (h + 1) * size].T
            for h in range(heads)
        )
        gain = torch.ones(length) if layer.gain is None else layer.gain
        bias = mixer_of(module).projection.bias
        constant = 0 if bias is None else bias
        whole = gain[:, None] * written + constant
        torch.testing.assert_close(whole, layer.update, rtol=1e-4, atol=1e-5 * float(layer.update.abs().max()))


def check_likelihoods(lvlm, trace):
    """Decoding recorded arguments gives what the model's own forward gives."""
    with torch.no_grad():
        logits = lvlm.model(**trace_inputs(lvlm, trace), use_cache=False).logits[0].double().log_softmax(-1)
    start, ids = trace.prompt_length, torch.tensor(trace.ids)
    expected = logits[start - 1 : -1].gather(1, ids[start:, None])[:, 0]
    found = lvlm.seam.log_probabilities(encode_trace(lvlm, trace), ids, start)[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
