"""Adapters of PEFT: merged into the weights, found by name, refused where they do not fit."""

from __future__ import annotations

import json

import pytest
import torch

import vtrace
from vtrace.lvlm.load import load

peft = pytest.importorskip("peft", reason="adapters need peft")


def write_adapter(model: str, folder, targets: list[str]):
    """A LoRA adapter with random weights, as PEFT saves it."""
    torch.manual_seed(0)
    base = load(model).model
    whole = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False))
    whole.save_pretrained(folder, save_embedding_layers=False)
    place = folder / "adapter_config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"base_model_name_or_path": model}))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    write_adapter("pinhole", folder, ["q_proj", "o_proj"])
    return folder


def logits(lvlm):
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        return lvlm.model(input_ids=ids).logits


def test_an_adapter_is_merged_into_the_weights(adapter, pinhole):
    found = load("pinhole", adapter=adapter)
    beside = peft.PeftModel.from_pretrained(load("pinhole").model, adapter).eval()
    with torch.no_grad():
        expected = beside(input_ids=torch.tensor([[5, 6, 7, 8]])).logits
    torch.testing.assert_close(logits(found), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits(found), logits(pinhole), atol=1e-2)
    assert type(found.model) is type(pinhole.model)
    assert found.name == f"pinhole + {adapter}"
    assert found.revision != pinhole.revision


def test_a_folder_that_holds_only_an_adapter_loads_its_model_too(adapter):
    torch.testing.assert_close(logits(load(adapter)), logits(load("pinhole", adapter=adapter)))


def test_an_adapter_for_another_model_is_refused_in_one_line(adapter, tmp_path):
    with pytest.raises(vtrace.VTraceError, match="does not fit pinhole-internvl: it has no weights for") as caught:
        load("pinhole-internvl", adapter=adapter)
    assert "\n" not in str(caught.value)
    with pytest.raises(vtrace.VTraceError, match="there is no adapter at"):
        load("pinhole", adapter=tmp_path)


def test_two_models_are_compared_on_one_response(run, adapter, tmp_path):
    page, place = tmp_path / "moved.html", tmp_path / "moved.json"
    code, out, err = run("compare-models", "pinhole", adapter, "--target", "answer", "--html", page, "--json", place)
    assert code == 0, err
    assert "what moved" in out
    facts = json.loads(place.read_text())
    assert list(facts["models"]) == ["pinhole", f"pinhole + {adapter}"]
    changes = [abs(item["after"] - item["before"]) for item in facts["moved"]]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0
    for side in ("before", "after"):
        assert sum(item[side] for item in facts["moved"]) == pytest.approx(1, abs=1e-3)
        assert sorted(item[f"rank_{side}"] for item in facts["moved"]) == list(range(1, len(changes) + 1))
    text = page.read_text()
    assert f'"method":"pinhole + {adapter}"' in text
    assert '"compared":"model"' in text, "models are called models, and the page lists what moved"


def test_the_same_model_twice_moves_nothing(run):
    code, out, err = run("compare-models", "pinhole", "pinhole", "--json", "-")
    assert code == 0, err
    assert all(item["before"] == item["after"] for item in json.loads(out)["moved"])


def test_models_that_read_the_prompt_differently_are_refused(run):
    code, _, err = run("compare-models", "pinhole", "pinhole-internvl")
    assert code == 3
    assert "reads its prompt differently" in err
