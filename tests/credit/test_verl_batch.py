"""verl's options and rows, without verl; and the copy of the policy."""

from __future__ import annotations

import pytest
import torch

from support.verl_batches import queue_row
from vtrace.credit.credit import Credit
from vtrace.credit.policy_copy import PolicyCopy
from vtrace.credit.rollouts import from_trace
from vtrace.credit.verl_batch import VerlOptions, VerlRow
from vtrace.errors import InputError, ModelError


def test_a_row_is_the_rollout_of_its_trace(pinhole, trace):
    row, frozen = queue_row(pinhole, trace).rollout(pinhole), from_trace(pinhole, trace)
    assert (row.ids, row.prompt_length, row.finished) == (frozen.ids, frozen.prompt_length, frozen.finished)
    assert (row.question, row.answer) == (frozen.question, frozen.answer)
    assert row.inputs.keys() == frozen.inputs.keys()
    assert all(torch.equal(row.inputs[name], frozen.inputs[name]) for name in row.inputs)


def test_a_row_needs_neither_pictures_nor_messages(pinhole):
    prompt = pinhole.processor.tokenizer("What is it?")["input_ids"]
    found = VerlRow(torch.tensor(prompt), torch.tensor([0]), torch.ones(1)).rollout(pinhole)
    assert (found.ids, found.question, "pixel_values" in found.inputs) == ((*prompt, 0), (), False)


def test_a_row_moves_if_any_of_its_advantages_does():
    tokens = torch.arange(2)
    assert [VerlRow(tokens, tokens, torch.tensor(a)).moved for a in ([0.0, 0.0], [0.0, -1.0])] == [False, True]


def test_options_are_read_from_the_configuration():
    options = VerlOptions.read({"source": "random", "share": 0.2, "refresh": 5, "offload": False})
    assert options == VerlOptions(Credit("random", share=0.2), refresh=5, offload=False)
    assert VerlOptions.read({}) == VerlOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sauce": "vtrace"}, r"unknown option credit\.sauce; use one of: boost, dtype"),
        ({"source": "tea leaves"}, "unknown source 'tea leaves'"),
        ({"refresh": 0}, r"credit\.refresh is 0"),
        ({"share": 2}, "share is 2"),
    ],
)
def test_bad_options_are_refused_before_training(given, message):
    with pytest.raises(InputError, match=message):
        VerlOptions.read(given)


@pytest.fixture
def copy(pinhole):
    return PolicyCopy.load("pinhole", "cpu", None, offload=True)


def test_the_copy_follows_the_policy_and_leaves_it_alone(pinhole, copy):
    weights = {name: tensor + 1 for name, tensor in pinhole.model.state_dict().items()}
    copy.refresh(weights.items(), {name: name for name in weights})
    assert all(torch.equal(tensor, weights[name]) for name, tensor in copy.lvlm.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in copy.lvlm.model.parameters())
    with copy.awake() as lvlm:
        assert lvlm.device.type == "cpu"


def test_weights_under_other_names_are_an_error_that_takes_them_all(pinhole, copy):
    """Other processes wait until all have been taken."""
    weights = iter(pinhole.model.state_dict().items())
    with pytest.raises(ModelError, match="credit cannot follow the policy"):
        copy.refresh(weights, {})
    assert next(weights, None) is None


def test_a_family_that_cannot_be_read_is_an_error_at_the_start(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "vilt", "architectures": ["ViltForQuestionAnswering"]}')
    with pytest.raises(ModelError, match="vilt"):
        PolicyCopy.load(tmp_path, "cpu", None, offload=False)


def test_the_copy_runs_with_the_methods_its_classes_had(copy, monkeypatch):
    """verl replaces the forward of Qwen3-VL by one that computes no positions for pictures."""
    kind = type(copy.lvlm.model.model)
    original = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, **arguments: None)
    monkeypatch.setattr(kind, "added", lambda self: None, raising=False)
    replaced = kind.forward
    with copy.awake():
        assert kind.forward is original
        assert not hasattr(kind, "added")
    assert kind.forward is replaced
    assert hasattr(kind, "added")


def test_a_copy_that_comes_too_late_is_an_error(copy, monkeypatch):
    monkeypatch.setattr(type(copy.lvlm.model.model), "forward", lambda self, **arguments: None)
    with pytest.raises(ModelError, match=r"Qwen3VLModel\.forward was replaced before credit started, by"):
        PolicyCopy.load("pinhole", "cpu", None, offload=False)
