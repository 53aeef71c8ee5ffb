"""The decoder seam: nothing is re-implemented, nothing leaks, the model is left as it was."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from support.pictures import noise
from vtrace.errors import ModelError
from vtrace.methods.session import TraceSession
from vtrace.tracing.prompt import encode_trace, process_prompt
from vtrace.types import Example


def test_decoding_recorded_arguments_gives_the_models_own_likelihoods(pinhole, trace):
    processed = process_prompt(pinhole, Example(trace.images, trace.question), trace.system)
    inputs, prompt = dict(processed.inputs), processed.ids
    more = len(trace) - len(prompt)
    inputs["input_ids"] = torch.tensor([trace.ids])
    inputs["attention_mask"] = torch.ones(1, len(trace), dtype=torch.long)
    inputs["mm_token_type_ids"] = torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, more))
    with torch.no_grad():
        logits = pinhole.model(**inputs, use_cache=False).logits[0].double().log_softmax(-1)
    expected = logits[len(prompt) - 1 : -1].gather(1, torch.tensor(trace.ids[len(prompt) :])[:, None])[:, 0]
    found = pinhole.seam.log_probabilities(encode_trace(pinhole, trace), torch.tensor(trace.ids), len(prompt))[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_greedy_response_is_what_the_frozen_tokens_say(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    with torch.no_grad():
        hidden = pinhole.seam.decoder(**arguments).last_hidden_state[0, trace.prompt_length - 1 : -1]
    assert pinhole.model.lm_head(hidden).argmax(-1).tolist() == list(trace.ids[trace.prompt_length :])


@pytest.mark.parametrize("which", ["pinhole", "random_lvlm"])
def test_with_the_image_padded_the_logits_do_not_depend_on_the_pixels(which, request):
    lvlm = request.getfixturevalue(which)
    trace = request.getfixturevalue("trace" if which == "pinhole" else "random_trace")
    other = dataclasses.replace(trace, images=tuple(noise(i.size) for i in trace.images))
    ids, start, image = torch.tensor(trace.ids), trace.prompt_length, trace.positions("image")

    def padded(shown, erase=True):
        family = lvlm.family if erase else dataclasses.replace(lvlm.family, extras=lambda arguments: [])
        seam = dataclasses.replace(lvlm.seam, family=family)
        return seam.log_probabilities(seam.pad(encode_trace(lvlm, shown), [image]), ids, start)

    torch.testing.assert_close(padded(trace), padded(other), rtol=0, atol=0)
    assert not torch.allclose(padded(trace, erase=False), padded(other, erase=False)), "DeepStack must be what leaks"


def test_padding_changes_only_the_chosen_positions(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    chosen = [trace.positions("image")[:3], trace.positions("question")[2:5]]
    padded = pinhole.seam.pad(arguments, chosen)
    for row, positions in enumerate(chosen):
        changed = (padded["inputs_embeds"][row] != arguments["inputs_embeds"][0]).any(-1).nonzero()[:, 0].tolist()
        assert changed == positions
    assert (padded["position_ids"] == arguments["position_ids"]).all()


def test_padded_sets_in_one_batch_equal_one_at_a_time(pinhole, trace, monkeypatch):
    arguments = encode_trace(pinhole, trace)
    ids, start = torch.tensor(trace.ids), trace.prompt_length
    image, text = trace.positions("image"), trace.positions("question")
    sets = [image, text, image + text]
    together = pinhole.seam.log_probabilities_padded(arguments, ids, start, sets)
    monkeypatch.setattr("vtrace.lvlm.batch_size.CPU_TOKENS", 1)
    torch.testing.assert_close(
        pinhole.seam.log_probabilities_padded(arguments, ids, start, sets), together, rtol=1e-4, atol=1e-4
    )


def test_an_instrumented_pass_changes_nothing_and_leaves_the_model_as_it_was(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    decoder = pinhole.seam.decoder
    before = (decoder.config._attn_implementation, pinhole.model.model.rope_deltas)
    plain = pinhole.seam.log_probabilities(arguments, torch.tensor(trace.ids), trace.prompt_length)[0]
    instrumented = TraceSession(pinhole.seam, trace, arguments).clean()
    torch.testing.assert_close(instrumented, plain, rtol=0, atol=0)
    assert (decoder.config._attn_implementation, pinhole.model.model.rope_deltas) == before
    assert not any(layer.self_attn.o_proj._forward_hooks for layer in decoder.layers)
    assert not decoder._forward_pre_hooks


def test_reading_layers_stops_after_the_last_attention_and_misses_none(pinhole, trace):
    arguments, decoder = encode_trace(pinhole, trace), pinhole.seam.decoder
    whole, read, finished = [], [], []
    with torch.no_grad(), pinhole.seam.capture(whole.append):
        decoder(**arguments)
    handles = [layer.mlp.register_forward_hook(lambda *_: finished.append(1)) for layer in decoder.layers]
    before = decoder.config._attn_implementation
    pinhole.seam.read_layers(arguments, read.extend, [len(trace)])
    for handle in handles:
        handle.remove()
    assert len(finished) == len(decoder.layers) - 1
    assert decoder.config._attn_implementation == before
    for one, other in zip(whole, read, strict=True):
        torch.testing.assert_close(one.update, other.update)


def test_the_model_is_restored_after_an_exception(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    decoder = pinhole.seam.decoder

    def fail(layer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pinhole.seam.capture(fail):
        decoder(**arguments)
    assert decoder.config._attn_implementation == "sdpa"
    assert not any(layer.self_attn.o_proj._forward_hooks for layer in decoder.layers)


def test_an_eager_model_is_instrumented_the_same_way(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    expected = TraceSession(pinhole.seam, trace, arguments).pairwise().dense()
    config = pinhole.seam.decoder.config
    config._attn_implementation = "eager"
    try:
        found = TraceSession(pinhole.seam, trace, arguments).pairwise().dense()
        assert config._attn_implementation == "eager"
    finally:
        config._attn_implementation = "sdpa"
    torch.testing.assert_close(found, expected)


def test_a_gate_that_cannot_be_read_is_refused(pinhole, trace):
    arguments = encode_trace(pinhole, trace)
    projection = pinhole.seam.decoder.layers[1].self_attn.o_proj
    hook = projection.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    try:
        with pytest.raises(ModelError, match="layer 1 has a gate or a norm"), pinhole.seam.capture(lambda layer: None):
            pinhole.seam.decoder(**arguments)
    finally:
        hook.remove()


def test_attention_that_bypasses_the_interface_is_refused(pinhole):
    with pytest.raises(ModelError, match="AttentionInterface"), pinhole.seam.capture(lambda layer: None):
        pass


def test_numbers_that_are_not_finite_name_the_layer(random_lvlm, random_trace):
    weight = random_lvlm.seam.decoder.layers[1].self_attn.o_proj.weight
    kept = weight.detach().clone()
    arguments = encode_trace(random_lvlm, random_trace)
    with torch.no_grad():
        weight[0, 0] = float("nan")
    try:
        with pytest.raises(ModelError, match="layer 1"):
            TraceSession(random_lvlm.seam, random_trace, arguments).layers()
    finally:
        with torch.no_grad():
            weight.copy_(kept)
