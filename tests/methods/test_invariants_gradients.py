"""What must hold for methods that take gradients: conservation, linearity, and a model left as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from support.comparing import close, run
from vtrace.errors import ModelError
from vtrace.lvlm.gradients import Graph, checkpointed
from vtrace.lvlm.relevance import relevance_rules
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target
from vtrace.types import Trace

# AttnLRP and gradients


def state_of(seam) -> tuple:
    """Kernel, replaced forwards, hooks: whatever could be left behind on a model."""
    modules = list(seam.model.modules())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in modules]  # transformers has some of its own
    return seam.decoder.config._attn_implementation, [m.__dict__.get("forward") for m in modules], hooks


@pytest.fixture
def unchanged(session) -> Iterator[None]:
    before = state_of(session.seam)
    assert before[0] == "sdpa"
    yield
    assert state_of(session.seam) == before


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_relevance_rules_leave_the_logits_as_they_are(session, rule):
    where = range(1, len(session.trace))
    with torch.no_grad():
        plain = session.seam.predict(session.arguments, where)
        with relevance_rules(session.seam.decoder, rule):
            close(session.seam.predict(session.arguments, where), plain)
        assert torch.equal(session.seam.predict(session.arguments, where), plain)


@pytest.mark.parametrize("spec", ["response", "answer", 7])
def test_constant_attention_conserves_relevance_without_biases(pinhole_session, spec):
    found = run("attnlrp", pinhole_session, spec, rule="cp", sign="signed")
    assert float(found.scores.sum()) == pytest.approx(found.details["target_logits"], rel=1e-4)


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_relevance_of_a_span_is_the_sum_over_its_tokens(session, rule):
    parts = [run("attnlrp", session, token, rule=rule, sign="signed").scores for token in (2, 3, 9)]
    close(run("attnlrp", session, [2, 3, 9], rule=rule, sign="signed").scores, sum(parts))


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_computing_activations_twice_changes_nothing(session, rule, unchanged):
    kept = run("attnlrp", session, "answer", rule=rule, sign="signed", checkpoint=False)
    twice = run("attnlrp", session, "answer", rule=rule, sign="signed", checkpoint=True)
    close(twice.scores, kept.scores)
    assert twice.details["checkpointed"]


def test_rules_are_gone_when_the_context_closes(session, unchanged):
    decoder = session.seam.decoder
    kernel, forwards, _ = state_of(session.seam)
    with relevance_rules(decoder, "attnlrp"), checkpointed(decoder.layers):
        inside = state_of(session.seam)
    assert inside[0] != kernel
    assert inside[1] != forwards


def test_rules_are_gone_after_an_exception_inside(session, unchanged):
    decoder = session.seam.decoder
    with pytest.raises(KeyboardInterrupt), relevance_rules(decoder, "cp"), checkpointed(decoder.layers):
        raise KeyboardInterrupt


def test_rules_are_gone_after_a_backward_pass_that_failed(session, unchanged, monkeypatch):
    def fail(self, output, keep=False):
        raise NotImplementedError("nothing flows back")

    monkeypatch.setattr(Graph, "gradient", fail)
    with pytest.raises(ModelError, match="attnlrp cannot run on this model: nothing flows back"):
        run_method("attnlrp", session, find_target(session.trace, "answer"), checkpoint=True)


def test_a_forward_that_somebody_else_has_replaced_is_put_back(session, unchanged):
    decoder = session.seam.decoder
    mine = decoder.norm.forward
    decoder.norm.forward = mine
    try:
        with relevance_rules(decoder, "cp"):
            assert decoder.norm.forward is not mine
        assert decoder.norm.__dict__["forward"] is mine
    finally:
        del decoder.norm.forward


@pytest.mark.parametrize("inner", ["attnlrp", "cp"])
def test_rules_inside_rules_are_refused(session, inner, unchanged):
    decoder = session.seam.decoder
    with (
        pytest.raises(ModelError, match="already active"),
        relevance_rules(decoder, "attnlrp"),
        relevance_rules(decoder, inner),
    ):
        pass


def test_norms_without_a_rule_are_refused(session, unchanged, monkeypatch):
    monkeypatch.setattr(type(session.seam.decoder.norm), "forward", lambda self, x: x.tanh())
    with pytest.raises(ModelError, match="not a plain RMS norm"):
        run("attnlrp", session, "answer")


def test_mlps_without_a_rule_are_refused(session, unchanged):
    layer = session.seam.decoder.layers[0]
    kept, layer.mlp = layer.mlp, torch.nn.Identity()
    try:
        with pytest.raises(ModelError, match="Identity"):
            run("attnlrp", session, "answer")
    finally:
        layer.mlp = kept


GRADIENT_METHODS = {
    "attnlrp": {},
    "attnlrp checkpointed": {"checkpoint": True},
    "gradient": {},
    "chefer": {},
    "chefer tokens": {"span": "tokens"},
    "glimpse": {},
    "ig": {"steps": 1},
    "heta": {"probes": 1},
    "heta finite": {"probes": 1, "curvature": "finite"},
}


@pytest.mark.parametrize("which", GRADIENT_METHODS)
def test_gradients_leave_the_flags_of_parameters_as_they_were(session, which, unchanged, monkeypatch):
    """Some parameters were frozen by the user, and stay so; the others stay trainable and get no gradient."""
    few = [session.inputs[0], session.inputs[-1]]
    if which.startswith("heta"):
        monkeypatch.setattr(Trace, "inputs", property(lambda trace: few))
    parameters = list(session.seam.model.parameters())
    for parameter in parameters[::3]:
        parameter.requires_grad_(False)
    before = [parameter.requires_grad for parameter in parameters]
    fresh = TraceSession(session.seam, session.trace, session.arguments)
    try:
        run(which.split()[0], fresh, "answer", **GRADIENT_METHODS[which])
        assert [parameter.requires_grad for parameter in parameters] == before
        assert all(parameter.grad is None for parameter in parameters)
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def test_a_graph_that_fails_leaves_the_model_as_it_was(session, unchanged):
    with pytest.raises(IndexError):
        Graph(session.seam, session.arguments, session.ids, [len(session.trace) + 5])
    assert all(parameter.requires_grad for parameter in session.seam.model.parameters())


def test_signs_are_one_copy_seen_in_three_ways(session):
    signed, positive, absolute = (
        run("attnlrp", session, "answer", sign=sign).scores for sign in ("signed", "positive", "absolute")
    )
    assert (signed < 0).any()
    assert torch.equal(positive, signed.clamp_min(0))
    assert torch.equal(absolute, signed.abs())
    assert run("attnlrp", session, "answer").details["signed"] == signed.tolist()


# Integrated gradients


def test_integrated_gradients_add_up_to_the_change_of_likelihood(session, monkeypatch):
    """Of a few inputs, because the way is shorter. A random model pads with zeros, where norms have no slope to follow;
    any other token is a fair start."""
    few = session.trace.positions("image")[::12] + session.trace.positions("question")[::2]
    monkeypatch.setattr(Trace, "inputs", property(lambda trace: few))
    pad = session.seam.pad_id if session.seam.model.get_input_embeddings().weight[session.seam.pad_id].any() else 100
    near = TraceSession(dataclasses.replace(session.seam, pad_id=pad), session.trace, session.arguments)
    padded = near.seam.log_probabilities_padded(near.arguments, near.ids, near.trace.prompt_length, [few])[0]
    answer = [p - near.trace.prompt_length for p in find_target(near.trace, "answer").positions]
    change, gaps = float((near.clean() - padded)[answer].sum()), []
    for steps in (2, 64):
        signed = run("ig", near, "answer", steps=steps, max_steps=steps, sign="signed").scores
        assert signed.nonzero()[:, 0].tolist() == few
        gaps.append(abs(float(signed.sum()) - change))
    assert gaps[1] < gaps[0] / 2
    assert gaps[1] < 0.05 * abs(change)


def test_integrated_gradients_take_more_steps_until_enough_is_explained(pinhole_session):
    """Three times as many steps have the earlier ones among them, so nothing is computed twice."""
    found = run("ig", pinhole_session, "answer", steps=2, tolerance=0.1, max_steps=200).details
    assert found["steps"] in (6, 18, 54, 162)
    assert abs(found["unexplained"]) <= 0.1 * abs(found["change"])
    assert "warnings" not in found
    at_once = run("ig", pinhole_session, "answer", steps=found["steps"], tolerance=1e9, sign="signed")
    close(
        run("ig", pinhole_session, "answer", steps=2, tolerance=0.1, max_steps=200, sign="signed").scores,
        at_once.scores,
    )


def test_integrated_gradients_say_when_the_cap_is_hit(pinhole_session):
    found = run_method("ig", pinhole_session, find_target(pinhole_session.trace, "answer"), steps=2, max_steps=2)
    assert found.details["steps"] == 2
    (note,) = [note for note in found.warnings if "unexplained" in note]
    assert "max_steps" in note


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("element 0 of tensors does not require grad and does not have a grad_fn", ModelError),
        ("The size of tensor a (4) must match the size of tensor b (5)", RuntimeError),
    ],
)
def test_only_a_model_without_gradients_is_called_that(session, message, error, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError(message)

    monkeypatch.setattr(torch.autograd, "grad", fail)
    fresh = TraceSession(session.seam, session.trace, session.arguments)
    with pytest.raises(error) as caught:
        run_method("gradient", fresh, find_target(session.trace, "answer"))
    assert type(caught.value) is error
