"""Loading: dtypes, quantisation, devices, revisions, and what is said when loading fails."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import vtrace
from vtrace.errors import ModelError
from vtrace.lvlm.checkpoint import find_checkpoint


def rank_correlation(one, other) -> float:
    inputs = one.trace.positions("image", "question")
    ranks = [np.argsort(np.argsort(x.scores[inputs])) for x in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize(
    ("dtype", "least"), [("bfloat16", 0.99), ("float16", 0.99), (torch.bfloat16, 0.99), ("int8", 0.99), ("int4", 0.95)]
)
def test_other_dtypes_rank_like_float32_and_nothing_is_said_of_every_cast(trace, attribution, caplog, dtype, least):
    if dtype in ("int8", "int4"):
        for package in ("bitsandbytes", "accelerate"):
            pytest.importorskip(package, reason=f"{dtype} needs {package}, of the extra 'quantised'")
    other = vtrace.load("pinhole", dtype=dtype)
    assert rank_correlation(vtrace.attribute(other, trace), attribution) >= least
    assert "will be cast" not in caplog.text


def test_a_model_that_accelerate_places_gives_the_same(trace, attribution):
    pytest.importorskip("accelerate", reason="placing modules needs accelerate, of the extra 'quantised'")
    for device in ("auto", {"": "cpu"}):
        found = vtrace.attribute(vtrace.load("pinhole", device=device, dtype="float32"), trace)
        np.testing.assert_allclose(found.scores, attribution.scores, rtol=1e-4, atol=1e-9)


def test_an_offloaded_projection_is_read_through_its_module(pinhole, trace, attribution, tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="offloading needs accelerate, of the extra 'quantised'")
    other = vtrace.load("pinhole")
    accelerate.cpu_offload(other.seam.decoder.layers[3].self_attn, execution_device="cpu")
    assert other.seam.decoder.layers[3].self_attn.o_proj.weight.is_meta
    found = vtrace.attribute(other, trace)
    np.testing.assert_allclose(found.scores, attribution.scores, rtol=1e-3, atol=1e-9)


def test_quantising_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("vtrace.lvlm.load.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"int4 needs bitsandbytes; install it with: pip install .*\[quantised\]"):
        vtrace.load("pinhole", dtype="int4")


def test_a_hub_id_can_end_in_a_revision(tmp_path):
    assert find_checkpoint("Qwen/Qwen3-VL-4B-Instruct@main") == ("Qwen/Qwen3-VL-4B-Instruct", {"revision": "main"})
    assert find_checkpoint("Qwen/Qwen3-VL-4B-Instruct") == ("Qwen/Qwen3-VL-4B-Instruct", {})
    (tmp_path / "a@b").mkdir()
    assert find_checkpoint(str(tmp_path / "a@b")) == (str(tmp_path / "a@b"), {})


def test_the_revision_reaches_every_part(monkeypatch, pinhole):
    asked = []

    def remember(found):
        return lambda source, **where: asked.append((source, where.get("revision"))) or found

    monkeypatch.setattr("vtrace.lvlm.checkpoint.AutoConfig.from_pretrained", remember(pinhole.model.config))
    monkeypatch.setattr("vtrace.lvlm.checkpoint.AutoModelForImageTextToText.from_pretrained", remember(pinhole.model))
    monkeypatch.setattr(
        "vtrace.lvlm.load.load_processor", lambda source, kind, **w: remember(pinhole.processor)(source, **w)
    )
    loaded = vtrace.load("some/model", revision="abc")
    assert asked == [("some/model", "abc")] * 3
    assert loaded.name == "some/model@abc"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "float8"}, "unknown dtype"),
        ({"device": "mps"}, "float64"),
        ({"device": "tpu"}, "use cpu, cuda, or auto"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ModelError, match=words):
        vtrace.load("pinhole", **options)


@pytest.mark.parametrize(("gpu", "device", "dtype"), [(True, "cuda", torch.bfloat16), (False, "cpu", torch.float32)])
def test_the_default_is_a_gpu_with_the_checkpoints_dtype_or_else_the_cpu_with_float32(monkeypatch, gpu, device, dtype):
    moved = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("vtrace.lvlm.load._moved", lambda model, device: moved.append(device) or model)
    assert vtrace.load("pinhole").model.dtype == dtype
    assert moved == [device]


def test_a_gated_model_is_refused_with_what_to_do(monkeypatch):
    class GatedRepoError(Exception):
        pass

    def refuse(*_, **__):
        raise GatedRepoError("401 Client Error. (Request ID: …)\nCannot access gated repo for url …")

    monkeypatch.setattr("vtrace.lvlm.checkpoint.AutoConfig.from_pretrained", refuse)
    with pytest.raises(ModelError, match="accept them on its page, then run: hf auth login") as found:
        vtrace.load("google/gemma-3-4b-it")
    assert "\n" not in str(found.value)


def test_a_model_that_is_nowhere():
    with pytest.raises(ModelError, match="cannot find the model 'nobody/nothing'") as found:
        vtrace.load("nobody/nothing")
    assert "\n" not in str(found.value)


def test_damaged_weights(tmp_path, pinhole):
    pinhole.model.config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(ModelError, match="cannot load") as found:
        vtrace.load(tmp_path)
    assert "\n" not in str(found.value)


def test_a_configuration_that_is_not_json(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot find the model"):
        vtrace.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unheard_of"}))
    with pytest.raises(ModelError, match="unheard_of"):
        vtrace.load(tmp_path)
