"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    import vtrace

    path = tmp_path_factory.mktemp("pictures") / "scene.png"
    vtrace.example("dev-2").images[0].save(path)
    return path


def test_help_is_instant():
    def once():
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "vtrace.cli", "--help"], check=True, capture_output=True)
        return time.perf_counter() - began

    assert min(once() for _ in range(5)) < 0.5


def test_help_has_examples(run):
    code, out, _ = run("explain", "--help")
    assert code == 0
    assert "--target answer" in out


def test_without_arguments_an_embedded_example_is_explained(run):
    code, out, err = run("explain")
    assert code == 0
    assert "Answer" in out
    assert "image" in out
    assert err == ""


def test_json_on_stdout_is_the_attribution(run):
    code, out, _ = run("explain", "--json", "-", "--target", "answer", "--example", "test-9")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "vtrace.attribution/2"
    assert document["target"]["name"] == "answer"
    assert len(document["scores"]) == len(document["trace"]["ids"])
    assert document["image_share"] + document["text_share"] == pytest.approx(1)
    assert document["top"][0]["score"] >= document["top"][1]["score"]


def test_every_output_at_once(run, picture, tmp_path):
    names = ["a.json", "a.html", "a.png", "trace.json"]
    places = [tmp_path / name for name in names]
    code, _, err = run(
        "explain", picture, "Name the shapes in row 2.", "--json", places[0], "--html", places[1], "--png", places[2],
        "--save-trace", places[3], "--target", "reasoning",
    )  # fmt: skip
    assert code == 0
    assert all(place.stat().st_size > 1000 for place in places)
    assert "wrote" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    code, out, _ = run("explain", "--trace", places[3], "--target", "sentence 1", "--json", "-")
    assert code == 0
    assert json.loads(out)["target"]["name"] == "sentence 1"


def test_a_supplied_response(run, picture):
    code, out, _ = run("explain", picture, "Is there a star?", "--response", "I see.\nFinal answer: no", "--json", "-")
    assert code == 0
    assert json.loads(out)["answer"] == "no"


def test_ablation_switches_reach_the_result(run):
    code, out, _ = run(
        "explain", "--json", "-", "--gamma", "0.5", "--no-centring", "--no-calibrate", "--receivers", "token"
    )
    options = json.loads(out)["options"]
    assert code == 0
    assert (options["gamma"], options["centring"], options["calibrate"], options["receivers"]) == (
        0.5,
        False,
        False,
        "token",
    )


BAD = {
    "one argument": (["explain", "only-a-picture.png"], 2, "at least one picture and a question"),
    "missing picture": (["explain", "nothing.png", "What?"], 2, "there is no picture at nothing.png"),
    "unknown target": (["explain", "--target", '"zebra"'], 2, "does not contain 'zebra'"),
    "no such example": (["explain", "--example", "zebra"], 2, "there is no example 'zebra'"),
    "unwritable": (["explain", "--html", "no/such/folder/a.html"], 2, "there is no folder"),
    "output is a folder": (["explain", "--png", "."], 2, "is a folder"),
    "missing trace": (["explain", "--trace", "nothing.json"], 2, "there is no file nothing.json"),
    "missing model": (["explain", "--model", "no/such-model-here"], 3, "cannot find the model"),
    "bad device": (["explain", "--device", "abacus"], 3, "use cpu, cuda, or auto"),
    "two sources": (["explain", "a.png", "What?", "--example", "test-1"], 2, "exclude each other"),
    "trace and response": (["explain", "--trace", "a.json", "--response", "yes"], 2, "leave out --response"),
    "bad dtype": (["explain", "--dtype", "float99"], 3, "unknown dtype"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_an_exit_code(run, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, expected, word = BAD[name]
    code, out, err = run(*arguments)
    assert code == expected, err
    assert out == ""
    assert err.startswith("vtrace: ")
    assert err.count("\n") == 1, err
    assert word in err
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_picture(run, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    code, _, err = run("explain", tmp_path / "bad.png", "What?")
    assert code == 2
    assert err.count("\n") == 1


def test_models_that_cannot_be_explained_are_refused_with_the_reason(run, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model("mllama").save_pretrained(tmp_path / "crossed")
    AutoConfig.for_model("aria").save_pretrained(tmp_path / "other")
    code, _, err = run("explain", "--model", tmp_path / "crossed")
    assert (code, err.count("\n")) == (3, 1)
    assert "cross-attention" in err
    code, _, err = run("explain", "--model", tmp_path / "other")
    assert (code, err.count("\n")) == (3, 1)
    assert "not supported yet" in err


def test_models(run):
    code, out, _ = run("models")
    assert code == 0
    for word in ("Qwen3-VL", "gemma3", "proved on small random models", "refused", "cross-attention"):
        assert word in " ".join(out.split())
    _, out, _ = run("models", "--json")
    facts = json.loads(out)
    assert "qwen3_vl_moe" in facts["families"][0]["model_types"]
    assert "mllama" in facts["refused"]


def test_a_checkpoint_without_weights(run, tmp_path, pinhole):
    pinhole.model.config.save_pretrained(tmp_path / "hollow")
    code, _, err = run("explain", "--model", tmp_path / "hollow")
    assert (code, err.count("\n")) == (3, 1)


def test_an_interrupted_run_writes_nothing(run, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("vtrace.attribution.measure_likelihoods", interrupt)
    code, out, err = run("explain", "--html", tmp_path / "a.html")
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_doctor(run):
    code, out, _ = run("doctor")
    assert code == 0
    for word in ("Qwen3-VL", "transformers", "memory", "padded"):
        assert word in out
    code, out, _ = run("doctor", "--json", "--tokens", "100000")
    facts = json.loads(out)
    assert facts["fits_context"] is False
    assert facts["plan"]["matrix_bytes"] == 4 * 100_000**2


def test_doctor_still_reports_when_the_model_is_not_supported(run, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model("mllama").save_pretrained(tmp_path)
    code, out, err = run("doctor", "--model", tmp_path)
    assert (code, err) == (3, "")
    assert "torch" in out
    assert "cross-attention" in " ".join(out.split())


def test_out_of_memory_is_one_line(run, monkeypatch):
    def exhaust(*_, **__):
        raise MemoryError

    monkeypatch.setattr("vtrace.attribution.capture_pairwise", exhaust)
    code, _, err = run("explain")
    assert (code, err.count("\n")) == (3, 1)
    assert "out of memory" in err


def test_doctor_counts_parameters_and_memory_from_the_configuration(run, pinhole, tmp_path):
    pinhole.model.config.save_pretrained(tmp_path)  # no weights
    _, out, _ = run("doctor", "--model", tmp_path, "--json", "--tokens", "1000", "--dtype", "float32")
    plan = json.loads(out)["plan"]
    assert plan["parameters"] == sum(p.numel() for p in pinhole.model.parameters())
    assert plan["decoder_parameters"] == sum(p.numel() for p in pinhole.seam.decoder.parameters())
    assert plan["weights_bytes"] == 4 * plan["parameters"]
    text = pinhole.model.config.text_config
    assert plan["cache_bytes"] == 8 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * 1000
    _, out, _ = run("doctor", "--model", tmp_path, "--json", "--dtype", "int4")
    assert json.loads(out)["plan"]["weights_bytes"] < 0.4 * plan["weights_bytes"]


def test_cold_start_is_under_fifteen_seconds(tmp_path):
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "vtrace.cli", "explain", "--html", tmp_path / "a.html"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 15
