"""Stage 1: the streamed W equals the paper's pseudocode, and its parts add up to what the model did."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from oracles import algorithm
from oracles.states import cached_states
from vtrace.attribution.attention import BLOCK_BYTES
from vtrace.attribution.pairwise import PairwiseMatrix, centre_values
from vtrace.lvlm.layer import Layer
from vtrace.methods.session import TraceSession
from vtrace.tracing.prompt import encode_trace


def random_layer(heads, groups, length, size, width, seed=0):
    torch.manual_seed(seed)
    query = torch.randn(heads, length, size)
    key, value = torch.randn(groups, length, size), torch.randn(groups, length, size)
    projection = torch.randn(width, heads * size)
    logits = query @ key.repeat_interleave(heads // groups, 0).mT * size**-0.5
    causal = torch.ones(length, length).triu(1).bool()
    attention = logits.masked_fill(causal, -torch.inf).softmax(-1)
    mixed = attention @ value.repeat_interleave(heads // groups, 0)
    update = mixed.transpose(0, 1).reshape(length, -1) @ projection.T
    layer = Layer(0, query, key, value, update, projection, size**-0.5, None, residual=torch.zeros(length, width))
    return layer, attention


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2), (4, 1)])
@pytest.mark.parametrize("centring", [True, False])
def test_streamed_matrix_equals_the_pseudocode(heads, groups, centring, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 1)  # the smallest blocks, so that several are used
    length, size, width = 37, 8, 20
    image, text = list(range(3, 15)), list(range(17, 30))
    matrix = PairwiseMatrix(length, [torch.tensor(image), torch.tensor(text)] if centring else [])
    V, a, x_attn, Wo = [], [], [], []
    for seed in range(3):
        layer, attention = random_layer(heads, groups, length, size, width, seed)
        matrix.add(layer)
        V.append(layer.value.repeat_interleave(heads // groups, 0).transpose(0, 1))
        a.append(attention)
        x_attn.append(layer.update)
        Wo.append([layer.projection[:, h * size : (h + 1) * size].T for h in range(heads)])
    x_pre = [torch.zeros(length, width)] * 3
    expected = algorithm.pairwise(V, a, x_attn, x_pre, Wo, image, text, centre=centring)
    torch.testing.assert_close(matrix.finish().dense(), expected, rtol=1e-4, atol=1e-5 * float(expected.max()))


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_a_mask_is_used_as_the_model_passes_it(kind):
    """A window of five positions, and a source that nobody may read: neither is what a causal mask would give."""
    layer, _ = random_layer(2, 2, 20, 4, 10)
    distance = torch.arange(20)[:, None] - torch.arange(20)
    allowed = (distance >= 0) & (distance < 5)
    allowed[8:, 7] = False
    mask = allowed if kind == "bool" else torch.zeros(20, 20).masked_fill(~allowed, -torch.inf)
    matrix = PairwiseMatrix(20, [])
    matrix.add(dataclasses.replace(layer, mask=mask))
    logits = (layer.query @ layer.key.mT * layer.scaling).masked_fill(~allowed, -torch.inf)
    Wo = [[layer.projection[:, h * 4 : (h + 1) * 4].T for h in range(2)]]
    states = [layer.value.transpose(0, 1)], [logits.softmax(-1)], [layer.update], [torch.zeros(20, 10)], Wo
    expected = algorithm.pairwise(*states, [], [], centre=False)
    found = matrix.finish().dense()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.max()))
    assert not found[~allowed.T].any()
    assert found[allowed.T & (distance.T > 0)].any()


def test_a_causal_mask_changes_nothing():
    layer, _ = random_layer(2, 2, 20, 4, 10)
    plain, masked = PairwiseMatrix(20, []), PairwiseMatrix(20, [])
    plain.add(layer)
    masked.add(dataclasses.replace(layer, mask=torch.ones(20, 20).tril().bool()))
    torch.testing.assert_close(masked.finish().dense(), plain.finish().dense())


def test_centring_values_centres_the_writes():
    torch.manual_seed(0)
    value, projection = torch.randn(1, 12, 4), torch.randn(4, 9)
    group = torch.arange(2, 8)
    writes = value[0] @ projection
    writes[group] -= writes[group].mean(0)
    torch.testing.assert_close(centre_values(value, [group])[0] @ projection, writes)


@pytest.mark.parametrize("which", ["pinhole", "random_lvlm"])
def test_attention_times_writes_rebuilds_every_update(which, request):
    lvlm = request.getfixturevalue(which)
    trace = request.getfixturevalue("trace" if which == "pinhole" else "random_trace")
    arguments = encode_trace(lvlm, trace)
    decoder = lvlm.seam.decoder
    V, a, x_attn, x_pre, Wo = cached_states(lvlm.model, decoder, arguments)
    for layer in range(len(V)):
        rebuilt = sum(a[layer][h] @ (V[layer][:, h] @ Wo[layer][h]) for h in range(len(Wo[layer])))
        bias = decoder.layers[layer].self_attn.o_proj.bias
        rebuilt = rebuilt if bias is None else rebuilt + bias
        update = x_attn[layer] - x_pre[layer]
        torch.testing.assert_close(rebuilt, update, rtol=1e-4, atol=1e-4 * float(update.abs().max()))


@pytest.mark.parametrize("which", ["pinhole", "random_lvlm"])
@pytest.mark.parametrize("centring", [True, False])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "streamed"])
def test_the_matrix_of_an_instrumented_pass_equals_the_pseudocode_on_a_real_model(which, centring, keep, request):
    lvlm = request.getfixturevalue(which)
    trace = request.getfixturevalue("trace" if which == "pinhole" else "random_trace")
    arguments = encode_trace(lvlm, trace)
    matrix = TraceSession(lvlm.seam, trace, arguments, keep_layers=keep).pairwise(centring).dense()
    V, a, x_attn, x_pre, Wo = cached_states(lvlm.model, lvlm.seam.decoder, arguments)
    expected = literal_but_vectorised(V, a, x_attn, x_pre, Wo, trace, centring)
    torch.testing.assert_close(matrix, expected, rtol=1e-4, atol=1e-5 * float(expected.max()))
    assert torch.equal(matrix, matrix.triu(1))


def literal_but_vectorised(V, a, x_attn, x_pre, Wo, trace, centring):
    """The pseudocode in d-dimensional space with the loops over i and j as einsum; the loops take minutes here."""
    W = 0
    for v, alpha, after, before, wo in zip(V, a, x_attn, x_pre, Wo, strict=True):
        F = torch.stack([v[:, h] @ wo[h] for h in range(len(wo))], dim=1)
        for kind in ("image", "question") if centring else ():
            positions = trace.positions(kind)
            F[positions] -= F[positions].mean(0)
        d = after - before
        e = torch.einsum("hji,ihd,jd->ij", alpha, F, d)
        W = W + e.relu() / (d.norm(dim=-1) + algorithm.EPS) / len(V)
    return W.triu(1)


def test_the_vectorised_twin_is_the_literal_one(random_lvlm, random_trace):
    short = 24
    V, a, x_attn, x_pre, Wo = cached_states(
        random_lvlm.model, random_lvlm.seam.decoder, encode_trace(random_lvlm, random_trace)
    )
    image = [p for p in random_trace.positions("image") if p < short]
    text = list(range(2, 8))

    class Cut:
        def positions(self, kind):
            return image if kind == "image" else text

    image = image or list(range(10, 20))
    cut = [
        [x[:short] for x in V],
        [x[:, :short, :short] for x in a],
        [x[:short] for x in x_attn],
        [x[:short] for x in x_pre],
        Wo,
    ]
    literal = algorithm.pairwise(*cut, image, text)
    torch.testing.assert_close(literal_but_vectorised(*cut, Cut(), True), literal, rtol=1e-4, atol=1e-6)
