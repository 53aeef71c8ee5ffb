"""Loading: dtypes, quantisation, devices, revisions, and what is said when loading fails."""

from __future__ import annotations

import json
import os
import pickle
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import vtrace
from vtrace.errors import ModelError
from vtrace.lvlm.checkpoint_source import EMBEDDED, failure_reason, find_checkpoint


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
    plain = {"trust_remote_code": False}
    name = "Qwen/Qwen3-VL-4B-Instruct"
    assert find_checkpoint(f"{name}@main") == (name, {**plain, "revision": "main"})
    assert find_checkpoint(name) == (name, plain)
    (tmp_path / "a@b").mkdir()
    assert find_checkpoint(str(tmp_path / "a@b")) == (str(tmp_path / "a@b"), plain)


def test_the_revision_reaches_every_part(monkeypatch, pinhole):
    monkeypatch.setattr("vtrace.lvlm.checkpoint_source._on_hub", lambda source, revision: True)
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
        ({"device": "mps"}, "cannot use device 'mps': .*; try --device cpu"),  # on a machine without one
        ({"device": "tpu"}, "unknown device 'tpu'; use cpu, cuda, cuda:1, mps, "),
        ({"device": 0}, "unknown device '0'"),
        ({"device": "meta"}, "unknown device 'meta'"),  # PyTorch knows it, and computes nothing on it
    ],
)
def test_bad_options_are_refused_before_weights_are_read(monkeypatch, options, words):
    monkeypatch.setattr("vtrace.lvlm.checkpoint.AutoModelForImageTextToText.from_pretrained", None)
    with pytest.raises(ModelError, match=words):
        vtrace.load("pinhole", **options)


@pytest.mark.parametrize(("gpu", "device", "dtype"), [(True, "cuda", torch.bfloat16), (False, "cpu", torch.float32)])
def test_the_default_is_a_gpu_with_the_checkpoints_dtype_or_else_the_cpu_with_float32(monkeypatch, gpu, device, dtype):
    moved = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("vtrace.lvlm.load._moved", lambda model, device: moved.append(device) or model)
    assert vtrace.load("pinhole").model.dtype == dtype
    assert moved == [device]


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "auto", torch.device("cpu"), {"": "cpu"}])
def test_whatever_leads_to_the_cpu_computes_in_float32(device):
    assert vtrace.load("pinhole", device=device).model.dtype == torch.float32


@pytest.mark.parametrize(
    ("message", "package"),
    [
        ("TimmWrapperModel requires the timm library but it was not found. You can install it with pip:\n…", "timm"),
        ("Could not load any image processor. Missing optional dependencies: torchvision. Please …", "torchvision"),
    ],
)
def test_a_missing_package_is_named_with_its_cure(message, package):
    found = failure_reason(ImportError(message))
    assert found == f"it needs {package}; install it with: pip install {package}"


def test_a_gated_model_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr("vtrace.lvlm.checkpoint_source._on_hub", lambda source, revision: True)

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


@pytest.fixture(params=["unknown", "qwen3_vl"])
def foreign(request, tmp_path):
    """A checkpoint that brings code of its own, which writes a file when it runs."""
    folder = tmp_path / "model"
    shutil.copytree(EMBEDDED["pinhole"], folder)
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n"
    (folder / "own.py").write_text(code)
    names = ("AutoConfig", "AutoModelForImageTextToText", "AutoProcessor", "AutoTokenizer", "AutoImageProcessor")
    for file in ("config.json", "processor_config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if (folder / file).exists():
            settings = json.loads((folder / file).read_text())
            settings["auto_map"] = dict.fromkeys(names, "own.Own")
            if file == "config.json":
                settings["model_type"] = request.param
            (folder / file).write_text(json.dumps(settings))
    return folder


def test_code_in_a_checkpoint_is_never_run_and_nobody_is_asked(foreign, tmp_path):
    """On a terminal, with a user who would answer yes."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vtrace.cli", "explain", "--model", str(foreign), "--json", "-", "--quiet"]
    os.write(ours, b"y\n" * 8)
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=300)
    os.close(ours)
    os.close(theirs)
    assert not (tmp_path / "ran").exists()
    assert "[y/N]" not in done.stdout + done.stderr
    if foreign.joinpath("config.json").read_text().find('"unknown"') > 0:
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
        assert "needs code of its own, which VTrace never runs" in done.stderr
    else:  # transformers has a class for it, which is used instead
        assert done.returncode == 0, done.stderr


class Pickled:
    """Creates a file when it is unpickled."""

    def __init__(self, place: Path):
        self.place = place

    def __reduce__(self):
        return Path.touch, (self.place,)


@pytest.mark.parametrize("kind", ["model", "adapter"])
def test_code_in_pickled_weights_is_never_run_and_nobody_is_told_how(run, tmp_path, kind):
    folder = tmp_path / kind
    folder.mkdir()
    for file in EMBEDDED["pinhole"].iterdir() if kind == "model" else ():
        if file.suffix != ".safetensors":
            shutil.copy(file, folder)
    if kind == "adapter":
        pytest.importorskip("peft", reason="there is no peft: pip install peft")
        settings = {"peft_type": "LORA", "base_model_name_or_path": "pinhole", "r": 4, "target_modules": ["q_proj"]}
        (folder / "adapter_config.json").write_text(json.dumps(settings))
    name = "pytorch_model.bin" if kind == "model" else "adapter_model.bin"
    (folder / name).write_bytes(pickle.dumps(Pickled(tmp_path / "ran")))
    code, _, err = run("explain", f"--{kind}", folder, "--json", "-", "--quiet")
    assert not (tmp_path / "ran").exists()
    assert (code, err.count("\n")) == (3, 1), err
    assert "its weights are a pickle with code in it, which VTrace never runs" in err
    assert "weights_only" not in err


def test_an_attention_kernel_from_the_hub_is_foreign_code_too(tmp_path):
    settings = json.loads((EMBEDDED["pinhole"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"_attn_implementation": "somebody/kernel"}))
    with pytest.raises(ModelError, match="needs code of its own, which VTrace never runs"):
        vtrace.load(tmp_path)
