"""A model split over two real processes (gloo, on the CPU) is explained like the whole model."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vtrace
from support import families, split_model
from support.split_model import methods_for, numbers, torchrun
from vtrace.errors import ModelError
from vtrace.lvlm.tensor_parallel import split_options
from vtrace.methods.registry import METHODS

# Besides the embedded model: Qwen3-VL with an output embedding of its own, where every method runs, and GLM with a norm
# after the output projection.
CHECKPOINTS = ("pinhole", "qwen3_vl", "glm4v")
NEEDS_GRADIENTS = {name for name, method in METHODS.items() if "backward passes" in method.needs}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """By checkpoint: the numbers of the whole model, and those of both processes."""
    folder = tmp_path_factory.mktemp("split")
    places = [name if name == "pinhole" else str(families.write(name, folder / name)) for name in CHECKPOINTS]
    done = torchrun(split_model.__file__, folder, *places)
    assert done.returncode == 0, done.stderr
    return {
        name: [
            numbers(vtrace.load(place, dtype="float32", device="cpu"), methods_for(place)),
            *(dict(np.load(folder / f"{number}-{rank}.npz")) for rank in (0, 1)),
        ]
        for number, (name, place) in enumerate(zip(CHECKPOINTS, places, strict=True))
    }


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_both_processes_have_the_same_numbers_to_the_last_digit(found, checkpoint):
    _, first, second = found[checkpoint]
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_tokens_pairwise_matrix_and_likelihoods_are_those_of_the_whole_model(found, checkpoint):
    whole, split, _ = found[checkpoint]
    np.testing.assert_array_equal(split["ids"], whole["ids"])
    assert split["revision"] == whole["revision"]
    strongest = whole["pairwise"].max()
    np.testing.assert_allclose(split["pairwise"] / strongest, whole["pairwise"] / strongest, rtol=0, atol=1e-6)
    np.testing.assert_allclose(split["likelihoods"], whole["likelihoods"], rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(METHODS.keys() - NEEDS_GRADIENTS))
def test_every_method_without_gradients_gives_the_same_scores(found, name):
    whole, split, _ = found["qwen3_vl"]
    np.testing.assert_allclose(split[name], whole[name], rtol=0, atol=1e-5 * np.abs(whole[name]).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NEEDS_GRADIENTS))
def test_a_method_with_gradients_says_that_it_cannot_run(found, name):
    _, split, _ = found["qwen3_vl"]
    assert str(split[name]).startswith(f"{name} cannot run on a model split over several processes")
    assert "\n" not in str(split[name])


@pytest.mark.slow
def test_the_ranking_is_the_same(found):
    whole, split, _ = found["pinhole"]
    np.testing.assert_allclose(split["vtrace"], whole["vtrace"], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(np.argsort(split["vtrace"]), np.argsort(whole["vtrace"]))


@pytest.mark.slow
def test_one_process_prints_and_writes(tmp_path, run):
    options = ("explain", "--target", "answer", "--json", "-", "--save-trace")
    done = torchrun("-m", "vtrace.cli", *options, tmp_path / "split.json", "--device", "tensor-parallel")
    assert done.returncode == 0, done.stderr
    _, out, _ = run(*options, tmp_path / "whole.json", "--device", "cpu")
    whole, split = json.loads(out), json.loads(done.stdout)
    assert done.stderr.count("wrote") == 1
    assert (tmp_path / "split.json").read_text() == (tmp_path / "whole.json").read_text()
    np.testing.assert_allclose(split["scores"], whole["scores"], rtol=0, atol=1e-6)
    assert [place["label"] for place in split["top"]] == [place["label"] for place in whole["top"]]


@pytest.mark.slow
def test_when_one_process_fails_the_others_end(tmp_path):
    done = torchrun(split_model.__file__, tmp_path, "fail")
    assert done.returncode != 0
    assert "ModelError: this process fails" in done.stderr


def test_several_processes_do_not_do_the_same_work(monkeypatch, run):
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = run("explain", "--device", "cpu")
    assert code == 2
    assert err == "vtrace: torchrun started 2 processes; give --device tensor-parallel, or start only one\n"


def test_an_error_of_another_process_says_which(monkeypatch, run):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert run("explain", "--device", "cpu")[2].startswith("vtrace (process 1): torchrun started 2 processes")


@pytest.mark.parametrize("message", ["[…/pair.cc:553] Connection closed by peer [127.0.0.1]:1922.", "NCCL error in: …"])
def test_a_process_that_has_lost_another_says_so_in_one_line(monkeypatch, run, message):
    def lose(*arguments, **options):
        raise RuntimeError(message)

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("vtrace.lvlm.load.load", lose)
    code, _, err = run("explain", "--device", "tensor-parallel")
    assert (code, err) == (3, "vtrace: another process has ended; its own message says why\n")


def test_without_torchrun_it_says_how_to_start():
    with pytest.raises(ModelError, match="start them with: torchrun --nproc-per-node 2"):
        vtrace.load("pinhole", device="tensor-parallel")


def test_heads_must_divide_evenly(monkeypatch, pinhole):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ModelError, match="over 3 processes: it has 4 attention heads and 2 key-value heads"):
        split_options(pinhole.model.config, pinhole.family, "pinhole")


def test_quantised_weights_are_not_split():
    with pytest.raises(ModelError, match="int4 cannot be combined with tensor parallelism"):
        vtrace.load("pinhole", dtype="int4", device="tensor-parallel")


def test_commands_that_write_a_run_do_not_split_a_model(run, tmp_path):
    code, _, err = run("evaluate", "--device", "tensor-parallel", "--out", tmp_path / "run")
    assert code == 2
    assert (
        err == "vtrace: --device tensor-parallel works with: vtrace explain, vtrace compare; use --device auto here\n"
    )
