"""What must hold for the methods whatever the model says: sums, limits, linearity, and a model left as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
import torch

import vtrace
from oracles import methods
from oracles.states import cached_states
from vtrace.attention import BLOCK_BYTES, attention_rows
from vtrace.attribution import encode_trace, trace_inputs
from vtrace.errors import InputError, ModelError
from vtrace.lvlm.gradients import Graph, checkpointed
from vtrace.lvlm.relevance import relevance_rules
from vtrace.lvlm.replacements import by_masked_lm, by_model, by_unigram
from vtrace.methods import METHODS, run_method
from vtrace.methods.flowtracer import attention_capacity, conditioned, reach_of, throughput
from vtrace.methods.heta import information, semantic_gate
from vtrace.methods.ifr import row_scores, shares_of, span_scores, writes_of
from vtrace.methods.work import Work
from vtrace.perturb import BLUR, Perturbation, blurred
from vtrace.targets import find_target
from vtrace.types import Target

reagent_module = import_module("vtrace.methods.reagent")  # the package's attribute of this name is the function
flashtrace_module = import_module("vtrace.methods.flashtrace")


@pytest.fixture(scope="module", params=["pinhole", "random_lvlm"])
def work(request) -> Work:
    lvlm = request.getfixturevalue(request.param)
    trace = request.getfixturevalue("trace" if request.param == "pinhole" else "random_trace")
    return Work.of(lvlm, trace)


@pytest.fixture(scope="module")
def pinhole_work(pinhole, trace) -> Work:
    return Work.of(pinhole, trace)


def run(name, work, spec="response", **options):
    return METHODS[name].run(work, find_target(work.trace, spec), **options)


def close(found, expected, rtol=1e-4, atol=1e-5):
    found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol * float(expected.abs().max()))


def maps_of(layer) -> torch.Tensor:
    """All weights of a layer at once."""
    (block,) = attention_rows(layer.query, layer.key, layer.scaling, layer.mask)
    return block[1].clone()


# What is recorded


def test_recorded_attention_times_writes_is_every_update(work):
    for layer, module in zip(work.layers, work.seam.decoder.layers, strict=True):
        every = slice(0, len(work.trace))
        written = sum(a @ writes_of(layer, head, every) for head, a in enumerate(maps_of(layer)))
        bias = module.self_attn.o_proj.bias
        close(written if bias is None else written + bias.detach(), layer.update)


def test_recorded_residuals_and_updates_are_those_of_an_eager_pass(work):
    _, a, x_attn, x_pre, _ = cached_states(work.seam.model, work.seam.decoder, work.arguments)
    for layer in work.layers:
        close(layer.residual, x_pre[layer.index])
        close(layer.residual + layer.update, x_attn[layer.index])
        close(maps_of(layer), a[layer.index])


def test_norms_of_writes_follow_the_groups_of_values(work):
    V, _, _, _, Wo = cached_states(work.seam.model, work.seam.decoder, work.arguments)
    for layer in work.layers:
        for head in range(len(layer.query)):
            direct = (V[layer.index][:, head] @ Wo[layer.index][head]).abs().sum(-1)
            close(writes_of(layer, head, slice(0, len(work.trace))).abs().sum(-1), direct)


# Rollout


def test_rows_of_rollout_sum_to_one(work):
    for spec in ("response", "answer", 0):
        scores = run("rollout", work, spec).scores
        assert float(scores.sum()) == pytest.approx(1, abs=1e-5)
        assert (scores >= 0).all()


def test_a_row_that_walks_down_is_a_row_of_the_whole_product(work, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 1 << 30)
    product = torch.eye(len(work.trace), dtype=torch.float64)
    for layer in work.layers:
        product = (maps_of(layer).double().mean(0) + torch.eye(len(product))) / 2 @ product
    for token in (0, 3):
        receiver = work.trace.prompt_length + token - 1
        close(run("rollout", work, token).scores, product[receiver], atol=1e-9)


def test_averaging_receivers_first_is_averaging_their_rows(work):
    rows = [run("rollout", work, token).scores for token in range(3, 7)]
    close(run("rollout", work, slice(3, 7)).scores, sum(rows) / 4, atol=1e-9)


# IFR and FlashTrace


def test_shares_of_tokens_and_residual_are_one_in_every_layer(work):
    where = torch.tensor([5, 40, work.trace.prompt_length, len(work.trace) - 1])
    for layer in work.layers:
        for rows, weights in attention_rows(layer.query, layer.key, layer.scaling, layer.mask, where):
            shares, stay = shares_of(layer, weights, layer.residual[rows], layer.update[rows])
            close(shares.sum(1) + stay, torch.ones(len(where)))
    found = run("ifr", work, 2)
    assert float(found.scores.sum()) + sum(found.details["residual_share"]) == pytest.approx(len(work.layers), rel=1e-5)


def test_a_span_of_one_receiver_is_its_row(work):
    for receiver in (7, work.trace.prompt_length + 2):
        where = torch.tensor([receiver])
        rows, row_stays = row_scores(work, where)
        span, span_stays = span_scores(work, where, torch.ones(1))
        close(span, rows[0])
        close(span_stays, row_stays)


def test_scaling_the_weights_of_a_span_changes_nothing(work):
    where, weights = torch.tensor([60, 80, 100]), torch.tensor([0.2, 1.0, 3.0])
    close(span_scores(work, where, weights * 250)[0], span_scores(work, where, weights)[0])


def test_nothing_after_the_last_receiver_is_credited(work):
    """Rounding must not turn into a floor under every source."""
    first = work.trace.prompt_length
    for options in ({}, {"aggregate": "span"}):
        assert not run("ifr", work, slice(0, 3), receivers="token", **options).scores[first + 3 :].any()


def test_a_threshold_drops_weak_writes_and_shares_stay_whole(work):
    size = float(work.layers[0].residual.abs().sum(-1).mean())
    plain, cut = run("ifr", work, 3), run("ifr", work, 3, threshold=size / 100)
    assert 0 < cut.scores.count_nonzero() < plain.scores.count_nonzero()
    assert float(cut.scores.sum()) + sum(cut.details["residual_share"]) == pytest.approx(len(work.layers), rel=1e-4)


def test_flashtrace_without_hops_is_ifr_of_the_span_on_what_is_observed(work):
    spec = slice(2, 7)
    expected = run("ifr", work, spec, aggregate="span").scores
    expected[work.trace.prompt_length :] = 0
    close(run("flashtrace", work, spec, hops=0, bridge="thinking").scores, expected)


def test_flashtrace_of_nothing_but_stop_tokens_is_still_traced(work):
    """Weights of zero everywhere fall back to ones."""
    stop = flashtrace_module.stop_tokens(work.trace)
    tokens = [p for p in range(work.trace.prompt_length, len(work.trace) - 1) if stop[p]]
    found = METHODS["flashtrace"].run(work, Target("stops", tuple(tokens)), hops=0)
    where = torch.tensor(tokens) - 1
    expected, _ = span_scores(work, where, torch.ones(len(where)))
    expected[stop] = 0
    expected[work.trace.prompt_length :] = 0
    assert float(found.scores.sum()) > 0
    close(found.scores, expected)


def test_flashtrace_of_the_end_token_alone_is_finite(work):
    last = len(work.trace) - work.trace.prompt_length - 1
    found = run_method("flashtrace", work, find_target(work.trace, last), hops=3)
    assert np.isfinite(found.scores).all()
    assert found.scores.any()


@pytest.mark.parametrize("bridge", ["generation", "thinking"])
@pytest.mark.parametrize("receivers", ["predictor", "token"])
def test_the_end_token_never_receives_and_is_never_credited(work, bridge, receivers, monkeypatch):
    seen, end = set(), len(work.trace) - 1

    def spy(work, where, weights, threshold):
        seen.update(where[weights > 0].tolist())
        return span_scores(work, where, weights, threshold)

    monkeypatch.setattr(flashtrace_module, "span_scores", spy)
    scores = run("flashtrace", work, bridge=bridge, receivers=receivers, hops=2).scores
    assert seen
    assert end not in seen
    assert not scores[work.trace.prompt_length :].any()


@pytest.mark.parametrize("bridge", ["generation", "thinking"])
@pytest.mark.parametrize("spec", ["response", "answer", 0])
def test_what_is_carried_on_never_grows(work, bridge, spec):
    reaches = run("flashtrace", work, spec, bridge=bridge, hops=4).details["carried_on"]
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(reaches))
    assert 0 <= reaches[0] <= 1


# FlowTracer


def test_a_walker_that_is_known_to_arrive_arrives(work):
    capacity = attention_capacity(work, range(len(work.layers)))
    assert torch.equal(capacity, capacity.triu(1))
    answer = torch.tensor([p - 1 for p in find_target(work.trace, "answer").positions])
    reach = reach_of(capacity, answer)
    step = conditioned(capacity, reach, answer)
    moving = reach > 0
    moving[answer] = False
    assert moving.any()
    close(step.sum(1)[moving], torch.ones(int(moving.sum())), rtol=1e-9, atol=1e-9)
    assert not step[~moving].any()
    flow = throughput(capacity, reach, answer, torch.tensor(work.inputs))
    assert float(flow[answer].sum()) == pytest.approx(1, abs=1e-9)  # absorbed, where nothing leaves
    assert not reach[int(answer.max()) + 1 :].any()


def test_reach_by_recursion_is_reach_by_solving(work):
    capacity = attention_capacity(work, range(1, 2))
    answer = [p - 1 for p in find_target(work.trace, "answer").positions]
    expected = methods.flowtracer_reach(capacity, answer)
    close(reach_of(capacity, torch.tensor(answer)), expected, rtol=1e-9, atol=1e-12)


def test_an_input_that_reaches_nothing_injects_nothing():
    capacity = torch.zeros(5, 5, dtype=torch.float64)
    capacity[0, 4] = capacity[1, 3] = 0.5
    answer = torch.tensor([4])
    flow = throughput(capacity, reach_of(capacity, answer), answer, torch.tensor([0, 1]))
    assert flow.tolist() == [2, 0, 0, 0, 1]


def test_direct_flow_is_all_attention_but_that_to_oneself(work):
    receiver = work.trace.prompt_length + 1
    kept = np.mean([float(maps_of(layer)[:, receiver, receiver].mean()) for layer in work.layers])
    scores = run("flowtracer", work, 2, mode="direct", first_layer=0.0, last_layer=1.0).scores
    assert float(scores.sum()) == pytest.approx(1 - kept, abs=1e-5)


# AttnLRP and gradients


def state_of(seam) -> tuple:
    """Kernel, replaced forwards, hooks: whatever could be left behind on a model."""
    modules = list(seam.model.modules())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in modules]  # transformers has some of its own
    return seam.decoder.config._attn_implementation, [m.__dict__.get("forward") for m in modules], hooks


@pytest.fixture
def unchanged(work) -> Iterator[None]:
    before = state_of(work.seam)
    assert before[0] == "sdpa"
    yield
    assert state_of(work.seam) == before


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_relevance_rules_leave_the_logits_as_they_are(work, rule):
    where = torch.arange(len(work.trace))
    with torch.no_grad():
        plain = work.seam.predict(work.arguments, where)
        with relevance_rules(work.seam.decoder, rule):
            close(work.seam.predict(work.arguments, where), plain)
        assert torch.equal(work.seam.predict(work.arguments, where), plain)


@pytest.mark.parametrize("spec", ["response", "answer", 7])
def test_constant_attention_conserves_relevance_without_biases(pinhole_work, spec):
    found = run("attnlrp", pinhole_work, spec, rule="cp", sign="signed")
    assert float(found.scores.sum()) == pytest.approx(found.details["target_logits"], rel=1e-4)


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_relevance_of_a_span_is_the_sum_over_its_tokens(work, rule):
    parts = [run("attnlrp", work, token, rule=rule, sign="signed").scores for token in (2, 3, 9)]
    close(run("attnlrp", work, [2, 3, 9], rule=rule, sign="signed").scores, sum(parts))


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_computing_activations_twice_changes_nothing(work, rule, unchanged):
    kept = run("attnlrp", work, "answer", rule=rule, sign="signed", checkpoint=False)
    twice = run("attnlrp", work, "answer", rule=rule, sign="signed", checkpoint=True)
    close(twice.scores, kept.scores)
    assert twice.details["checkpointed"]


def test_rules_are_gone_when_the_context_closes(work, unchanged):
    decoder = work.seam.decoder
    kernel, forwards, _ = state_of(work.seam)
    with relevance_rules(decoder, "attnlrp"), checkpointed(decoder.layers):
        inside = state_of(work.seam)
    assert inside[0] != kernel
    assert inside[1] != forwards


def test_rules_are_gone_after_an_exception_inside(work, unchanged):
    decoder = work.seam.decoder
    with pytest.raises(KeyboardInterrupt), relevance_rules(decoder, "cp"), checkpointed(decoder.layers):
        raise KeyboardInterrupt


def test_rules_are_gone_after_a_backward_pass_that_failed(work, unchanged, monkeypatch):
    def fail(self, output, keep=False):
        raise RuntimeError("nothing flows back")

    monkeypatch.setattr(Graph, "gradient", fail)
    with pytest.raises(ModelError, match="attnlrp cannot run on this model: nothing flows back"):
        run_method("attnlrp", work, find_target(work.trace, "answer"), checkpoint=True)


def test_a_forward_that_somebody_else_has_replaced_is_put_back(work, unchanged):
    decoder = work.seam.decoder
    mine = decoder.norm.forward
    decoder.norm.forward = mine
    try:
        with relevance_rules(decoder, "cp"):
            assert decoder.norm.forward is not mine
        assert decoder.norm.__dict__["forward"] is mine
    finally:
        del decoder.norm.forward


@pytest.mark.parametrize("inner", ["attnlrp", "cp"])
def test_rules_inside_rules_are_refused(work, inner, unchanged):
    decoder = work.seam.decoder
    with (
        pytest.raises(ModelError, match="already in place"),
        relevance_rules(decoder, "attnlrp"),
        relevance_rules(decoder, inner),
    ):
        pass


def test_norms_without_a_rule_are_refused(work, unchanged, monkeypatch):
    monkeypatch.setattr(type(work.seam.decoder.norm), "forward", lambda self, x: x.tanh())
    with pytest.raises(ModelError, match="not a plain RMS norm"):
        run("attnlrp", work, "answer")


def test_mlps_without_a_rule_are_refused(work, unchanged):
    layer = work.seam.decoder.layers[0]
    kept, layer.mlp = layer.mlp, torch.nn.Identity()
    try:
        with pytest.raises(ModelError, match="Identity"):
            run("attnlrp", work, "answer")
    finally:
        layer.mlp = kept


GRADIENT_METHODS = {
    "attnlrp": {}, "attnlrp checkpointed": {"checkpoint": True}, "gradient": {}, "chefer": {},
    "chefer tokens": {"span": "tokens"}, "glimpse": {}, "ig": {"steps": 1},
    "heta": {"probes": 1}, "heta finite": {"probes": 1, "curvature": "finite"},
}  # fmt: skip


@pytest.mark.parametrize("which", GRADIENT_METHODS)
def test_gradients_leave_the_flags_of_parameters_as_they_were(work, which, unchanged, monkeypatch):
    """Some parameters were frozen by the user, and stay so; the others stay trainable and get no gradient."""
    few = [work.inputs[0], work.inputs[-1]]
    if which.startswith("heta"):
        monkeypatch.setattr(Work, "inputs", property(lambda work: few))
    parameters = list(work.seam.model.parameters())
    for parameter in parameters[::3]:
        parameter.requires_grad_(False)
    before = [parameter.requires_grad for parameter in parameters]
    fresh = Work(work.seam, work.trace, work.arguments)
    try:
        run(which.split()[0], fresh, "answer", **GRADIENT_METHODS[which])
        assert [parameter.requires_grad for parameter in parameters] == before
        assert all(parameter.grad is None for parameter in parameters)
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def test_a_graph_that_fails_leaves_the_model_as_it_was(work, unchanged):
    with pytest.raises(IndexError):
        Graph(work.seam, work.arguments, work.ids, [len(work.trace) + 5])
    assert all(parameter.requires_grad for parameter in work.seam.model.parameters())


def test_signs_are_one_copy_seen_in_three_ways(work):
    signed, positive, absolute = (
        run("attnlrp", work, "answer", sign=sign).scores for sign in ("signed", "positive", "absolute")
    )
    assert (signed < 0).any()
    assert torch.equal(positive, signed.clamp_min(0))
    assert torch.equal(absolute, signed.abs())
    assert run("attnlrp", work, "answer").details["signed"] == signed.tolist()


# Integrated gradients


def test_integrated_gradients_add_up_to_the_change_of_likelihood(work, monkeypatch):
    """Of a few inputs, because the way is shorter. A random model pads with zeros, where norms have no slope to follow;
    any other token is a fair start."""
    few = work.trace.positions("image")[::12] + work.trace.positions("question")[::2]
    monkeypatch.setattr(Work, "inputs", property(lambda work: few))
    pad = work.seam.pad_id if work.seam.model.get_input_embeddings().weight[work.seam.pad_id].any() else 100
    near = Work(dataclasses.replace(work.seam, pad_id=pad), work.trace, work.arguments)
    padded = near.seam.log_probabilities_padded(near.arguments, near.ids, near.trace.prompt_length, [few])[0]
    answer = [p - near.trace.prompt_length for p in find_target(near.trace, "answer").positions]
    change, gaps = float((near.clean - padded)[answer].sum()), []
    for steps in (2, 64):
        signed = run("ig", near, "answer", steps=steps, sign="signed").scores
        assert signed.nonzero()[:, 0].tolist() == few
        gaps.append(abs(float(signed.sum()) - change))
    assert gaps[1] < gaps[0] / 2
    assert gaps[1] < 0.05 * abs(change)


# Leave-one-out


@pytest.fixture(scope="module")
def left_out(pinhole_work):
    return run("loo", pinhole_work, sign="signed").scores


def test_leaving_one_out_is_a_loop_over_plain_passes(pinhole, trace, left_out):
    inputs = trace_inputs(pinhole, trace)
    soft = trace_inputs(pinhole, blurred(trace))["pixel_values"]
    start, ids = trace.prompt_length, torch.tensor(trace.ids)

    def total(changed):
        with torch.no_grad():
            logs = pinhole.model(**changed, use_cache=False).logits[0].double().log_softmax(-1)
        return float(logs[start - 1 : -1].gather(1, ids[start:, None]).sum())

    clean = total(inputs)
    image, question = trace.positions("image"), trace.positions("question")
    merged = len(soft) // len(image)  # rows of pixels behind one image token
    expected = {}
    for position in (image[0], image[4], image[23], image[-1]):
        pixels, own = inputs["pixel_values"].clone(), slice(*(merged * (image.index(position) + k) for k in (0, 1)))
        pixels[own] = soft[own]
        expected[position] = clean - total({**inputs, "pixel_values": pixels})
    for position in (question[0], question[3], question[-1]):
        words = inputs["input_ids"].clone()
        words[0, position] = pinhole.seam.pad_id
        expected[position] = clean - total({**inputs, "input_ids": words})
    found = left_out[list(expected)]
    torch.testing.assert_close(found, torch.tensor([*expected.values()], dtype=torch.float64), rtol=1e-3, atol=1e-4)
    assert not left_out[trace.positions("template", "response")].any()


def test_blurring_no_patch_and_padding_no_word_changes_nothing(work):
    perturbation = Perturbation(work.lvlm, work.trace)
    nothing = perturbation.log_probabilities([(), ()])
    close(nothing, work.clean.expand(2, -1), atol=1e-5)


def test_a_blur_without_radius_gives_every_patch_nothing(work):
    perturbation = Perturbation(work.lvlm, work.trace, radius=0)
    image = work.trace.positions("image")
    close(perturbation.log_probabilities([image])[0], work.clean, atol=1e-5)


def test_blurring_every_patch_is_blurring_the_picture(work):
    perturbation, image = Perturbation(work.lvlm, work.trace), work.trace.positions("image")
    ids, start = work.ids, work.trace.prompt_length
    whole = work.seam.log_probabilities(encode_trace(work.lvlm, blurred(work.trace, BLUR)), ids, start)
    close(perturbation.log_probabilities([image]), whole)
    assert (whole[0] - work.clean).abs().max() > 1e-3


def test_states_in_one_batch_equal_one_at_a_time(work, monkeypatch):
    perturbation = Perturbation(work.lvlm, work.trace)
    image, question = work.trace.positions("image"), work.trace.positions("question")
    states = [image[:5], question[1:3], [image[7], question[0]], ()]
    together = perturbation.log_probabilities(states)
    monkeypatch.setattr("vtrace.perturb.BATCH_TOKENS", 1)
    heard = []
    close(perturbation.log_probabilities(states, lambda done, total: heard.append((done, total))), together)
    assert heard == [(4, 4)]


def test_the_tokens_of_a_word_share_what_the_word_loses(random_lvlm):
    example = vtrace.Example(vtrace.example("dev-3").images, "Is it somewhere?")  # a word the tokenizer does not know
    trace = vtrace.trace(random_lvlm, example, response="yes")
    scores = run("loo", Work.of(random_lvlm, trace), slice(0, 1), unit="word", sign="signed").scores
    word = next(w for w in trace.words if w.text == "somewhere")
    tokens = range(word.start, word.stop)
    assert len(tokens) > 1
    whole, without = Perturbation(random_lvlm, trace).log_probabilities([(), tokens])[:, 0]
    expected = torch.full((len(tokens),), float(whole - without) / len(tokens), dtype=torch.float64)
    torch.testing.assert_close(scores[list(tokens)], expected, rtol=1e-3, atol=1e-5)


# ReAGent

QUICK = dict(probes=2, steps=3)


def test_the_same_seed_gives_the_same_scores(work):
    one, again, other = (run("reagent", work, "answer", seed=seed, **QUICK).scores for seed in (4, 4, 5))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not one[work.trace.positions("template", "response")].any()


@pytest.mark.parametrize("scale", ["log", "softmax"])
@pytest.mark.parametrize(("clean", "changed"), [(1.0, 0.0), (0.0, 1.0)])
def test_a_change_of_likelihood_of_one_stays_finite(pinhole_work, clean, changed, scale, monkeypatch):
    def likelihood(work, target, replacer, masked, places):
        return torch.where(masked.any(1), changed, clean).double()

    monkeypatch.setattr(reagent_module, "_likelihood", likelihood)
    found = run("reagent", pinhole_work, "answer", scale=scale, **QUICK)
    assert torch.isfinite(found.scores).all()
    assert found.scores.max() > 0
    assert sum(found.details["softmax"]) == pytest.approx(1)


def test_replacements_are_other_tokens_of_the_vocabulary(work):
    where = work.trace.positions("question")
    size = work.seam.model.get_input_embeddings().num_embeddings
    for sampler in (by_model, by_unigram):
        table = sampler(work.seam, work.arguments, work.ids, where)
        assert table.shape == (len(where), size)
        close(table.sum(1), torch.ones(len(where)))
        assert not table[torch.arange(len(where)), work.ids[where]].any()


def test_chat_tokens_can_be_replaced_too(work):
    """The first position has nothing before it, and chat tokens have ids after all words."""
    table = by_model(work.seam, work.arguments, work.ids, [0, 1, work.trace.prompt_length - 2])
    assert torch.isfinite(table).all()
    close(table.sum(1), torch.ones(3))


def test_a_probe_stops_on_what_it_keeps_alone(pinhole_work, monkeypatch):
    masks = []
    arguments = reagent_module._Replacer.arguments

    def spy(self, masked, places):
        masks.append(masked.clone())
        return arguments(self, masked, places)

    monkeypatch.setattr(reagent_module._Replacer, "arguments", spy)
    found = run("reagent", pinhole_work, "answer", probes=1, steps=1, keep=4)
    clean, drawn, rest = masks
    assert not clean.any()
    assert drawn.any()
    kept = (~rest[0]).nonzero()[:, 0].tolist()
    assert sorted(torch.tensor(found.details["softmax"]).topk(4).indices.tolist()) == kept


def test_probes_stop_when_the_kept_inputs_suffice(pinhole_work):
    """With everything kept nothing is replaced, so a greedy response stays on top."""
    count = len(pinhole_work.inputs)
    found = run("reagent", pinhole_work, "answer", probes=2, steps=5, keep=count)
    assert (found.details["stopped"], found.details["steps"]) == (2, 1)
    more = run("reagent", pinhole_work, "answer", probes=2, steps=2, keep=count, top=0)
    assert (more.details["stopped"], more.details["steps"]) == (0, 2)


@pytest.mark.parametrize("image", ["blur", "shuffle", "pad"])
@pytest.mark.parametrize("sampler", ["model", "unigram"])
def test_every_way_to_replace_runs(work, image, sampler):
    found = run_method("reagent", work, find_target(work.trace, "answer"), image=image, sampler=sampler, **QUICK)
    assert np.isfinite(found.scores).all()
    assert found.image_share + found.text_share == pytest.approx(1)


@pytest.mark.parametrize("image", ["blur", "shuffle", "pad"])
def test_replacing_leaves_all_other_positions_alone(work, image):
    """Where nothing is replaced, embeddings and DeepStack rows are the model's own."""
    replacer = reagent_module._Replacer(work, "model", image, BLUR, torch.Generator().manual_seed(0))
    places = torch.tensor(work.inputs)
    masked = torch.zeros(2, len(places), dtype=torch.bool)
    masked[0, [0, 9, -1]] = True
    embeds, *extras = work.seam.inputs(replacer.arguments(masked, places))
    own, *own_extras = work.seam.inputs(work.arguments)
    assert (embeds[0] != own[0]).any(-1).nonzero()[:, 0].tolist() == sorted(places[[0, 9, -1]].tolist())
    assert torch.equal(embeds[1], own[0])
    assert extras
    for rows, before in zip(extras, own_extras, strict=True):
        first, second = rows.split(len(before))
        assert (first != before).any(-1).nonzero()[:, 0].tolist() == [0, 9]
        assert torch.equal(second, before)


@pytest.fixture
def masked_lm(tmp_path, trace) -> str:
    """A tiny random BERT that knows the words of the question, and some others, on disk."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    words = sorted({w.text.lower() for w in trace.words if w.kind == "question"} | {"red", "square", "below", "row"})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


def test_a_masked_language_model_proposes_words_of_the_same_length(pinhole, trace, pinhole_work, masked_lm):
    where = trace.positions("question")
    asked = [w for w in trace.words if w.kind == "question"]
    tokenizer = pinhole.processor.tokenizer
    fallback = torch.full((len(where), len(tokenizer)), 1 / len(tokenizer))
    table = by_masked_lm(masked_lm, asked, tokenizer, fallback, where)
    assert table.shape == fallback.shape
    close(table.sum(1), torch.ones(len(where)))
    word = next(w for w in asked if w.text == "purple")
    proposed = {tokenizer.decode([token]).strip() for token in table[where.index(word.start)].nonzero()[:, 0]}
    assert {"red", "square", "circle"} <= proposed
    assert "purple" not in proposed
    found = run_method("reagent", pinhole_work, find_target(trace, "answer"), sampler=masked_lm, **QUICK)
    assert np.isfinite(found.scores).all()


def test_words_beyond_the_masked_models_length_keep_the_models_own_proposals(pinhole, trace, masked_lm):
    from transformers import AutoTokenizer

    reader = AutoTokenizer.from_pretrained(masked_lm)
    reader.model_max_length = 8
    reader.save_pretrained(masked_lm)
    where = trace.positions("question")
    tokenizer = pinhole.processor.tokenizer
    fallback = torch.full((len(where), len(tokenizer)), 1 / len(tokenizer))
    asked = [w for w in trace.words if w.kind == "question"]
    table = by_masked_lm(masked_lm, asked, tokenizer, fallback, where)
    assert torch.equal(table[-1], fallback[-1])
    assert not torch.equal(table[where.index(asked[3].start)], fallback[0])


def test_a_masked_language_model_that_is_not_there_is_named(pinhole_work, tmp_path):
    with pytest.raises(ModelError, match="no-such-model"):
        run_method(
            "reagent", pinhole_work, find_target(pinhole_work.trace, "answer"),
            sampler=str(tmp_path / "no-such-model"), **QUICK,
        )  # fmt: skip


# HETA


def test_the_gate_sums_to_one_over_what_is_scored(work):
    where = torch.tensor([p - 1 for p in find_target(work.trace, "answer").positions])
    for scored in (work.inputs, work.inputs[5:9]):
        gate = semantic_gate(work, where, scored)
        assert float(gate.sum()) == pytest.approx(1)
        assert (gate >= 0).all()
        assert gate.count_nonzero() == len(scored)


@pytest.mark.parametrize("mask", ["zero", "mean", "pad"])
def test_information_is_never_negative(work, mask):
    few = work.inputs[::9]
    found = information(work, find_target(work.trace, slice(0, 5)), few, mask)
    assert (found >= 0).all()
    assert found[few].max() > 0
    assert not found[[p for p in range(len(found)) if p not in few]].any()


def test_a_mask_that_changes_nothing_has_no_information(work):
    """Padding what is padded already."""
    few = [work.trace.positions("image")[3], work.trace.positions("question")[1]]
    padded = Work(work.seam, work.trace, work.seam.pad(work.arguments, [few]))
    target = find_target(work.trace, slice(0, 5))
    assert float(information(padded, target, few, "pad").max()) == pytest.approx(0, abs=1e-9)
    assert float(information(padded, target, few, "mean").max()) > 1e-9


# Calibration and options, whatever the method


CALIBRATED = [
    "rollout", "ifr", "flashtrace", "flowtracer", "attnlrp", "alti", "alti-logit", "chefer", "glimpse", "cage",
    "attention-multihop", "gradient", "attention", "random", "centre", "position", "vtrace",
]  # fmt: skip


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_gives_the_image_its_measured_share(pinhole_work, name):
    target = find_target(pinhole_work.trace, "answer")
    found = run_method(name, pinhole_work, target, calibrated=True)
    assert found.calibration.applied
    assert found.image_share == pytest.approx(found.calibration.image_share)
    plain = run_method(name, pinhole_work, target, **({"calibrate": False} if name == "vtrace" else {}))
    np.testing.assert_allclose(found.uncalibrated, plain.scores, rtol=1e-9, atol=1e-12)


def test_signed_scores_are_calibrated_by_their_size(pinhole_work):
    target = find_target(pinhole_work.trace, "answer")
    found = run_method("attnlrp", pinhole_work, target, calibrated=True, sign="signed")
    assert (found.scores < 0).any()
    assert found.image_share == pytest.approx(found.calibration.image_share)
    assert found.variant["sign"] == "signed"
    assert found.variant["calibrated"]


CHOICES = [
    (name, option)
    for name, method in METHODS.items()
    for option, default in method.options.items()
    if isinstance(default, str) and option != "sampler"
]


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_a_choice_that_does_not_exist_is_refused_by_name(pinhole_work, name, option):
    target = find_target(pinhole_work.trace, "answer")
    with pytest.raises(InputError, match=rf"{name}\.{option} is 'nonsense'"):
        run_method(name, pinhole_work, target, **{option: "nonsense"})


def test_methods_that_change_the_picture_need_the_whole_model(pinhole_work):
    decoder_only = Work(pinhole_work.seam, pinhole_work.trace, pinhole_work.arguments)
    for name in ("loo", "reagent"):
        with pytest.raises(InputError, match=f"{name}: .*needs a whole model"):
            run_method(name, decoder_only, find_target(pinhole_work.trace, "answer"))


def test_numbers_in_the_middle_that_are_not_finite_name_the_method_and_the_layer(work):
    broken = Work(work.seam, work.trace, work.arguments)
    layers = list(work.layers)
    layers[1] = dataclasses.replace(layers[1], value=torch.full_like(layers[1].value, torch.nan))
    broken._made["recorded pass"] = (layers, work.clean)
    broken._uses["recorded pass"] = set()
    for name in ("ifr", "flashtrace", "alti", "chefer"):
        with pytest.raises(ModelError, match=f"{name}: .*layer 1"):
            run_method(name, broken, find_target(work.trace, "answer"))
