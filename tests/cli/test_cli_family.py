"""`--family auto` in every command that loads a model: it reaches the model, is recorded, and marks what comes out."""

from __future__ import annotations

import json

import pytest

from vtrace.faithfulness.store import read_run

ASKED = ["-m", "pinhole-internvl", "--family", "auto"]
LABEL = "pinhole-internvl (probed)"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize(
    "command", ["explain", "compare", "verify", "evaluate", "trace", "credit", "serve", "doctor", "study gamma"]
)
def test_an_unknown_family_is_refused_at_once(run, command):
    code, _, err = run(*command.split(), "--family", "qwen")
    assert code
    assert err == "vtrace: unknown family 'qwen'; use auto, or leave it out for the family of the checkpoint\n"


def test_responses_are_frozen_measured_and_credited_with_a_probed_model(run, traces, tmp_path):
    code, out, err = run("trace", *ASKED, "-b", "shapes-dev", "--limit", "1", "--json", "--out", traces)
    assert (code, json.loads(out)["probed"]) == (0, True), err
    assert "vtrace: probed: the places of image tokens were found" in err
    code, _, err = run("evaluate", "--traces", traces, "--methods", "random", "--steps", "2", "--out", tmp_path / "run")
    assert code == 0, err
    assert read_run(tmp_path / "run").settings["family"] == "auto"
    assert f"{LABEL} on shapes-dev" in run("table", tmp_path / "run")[1]
    code, out, err = run("credit", "--traces", traces, *ASKED, "--out", tmp_path / "weights.jsonl")
    assert (code, LABEL in out) == (0, True), err
    assert json.loads((tmp_path / "weights.jsonl").read_text())["probed"]
    described = run("evaluate", "-m", "pinhole-internvl", "-b", "shapes-dev", "--limit", "1", "--out", tmp_path / "run")
    assert described[0] == 2
    assert "was made with family 'auto', not ''; choose another --out" in described[2]


def test_workers_probe_too(run, tmp_path):
    few = ["-b", "shapes-dev", "--limit", "1", "--methods", "random", "--steps", "2", "--engine", "local"]
    code, _, err = run("evaluate", *ASKED, *few, "--out", tmp_path)
    assert code == 0, err
    assert read_run(tmp_path).settings["family"] == "auto"


def test_a_whole_benchmark_is_explained_with_a_probed_model(run, tmp_path):
    code, out, err = run(
        "explain", *ASKED, "-b", "shapes-dev", "--limit", "1", "--out", tmp_path / "out", "--json", "-"
    )
    assert (code, json.loads(out)["family"]) == (0, "auto"), err
    assert LABEL in (tmp_path / "out" / "index.html").read_text("utf-8")


def test_a_study_says_that_its_model_was_probed(run, tmp_path):
    code, out, err = run("study", "receivers", *ASKED, "--limit", "1", "--out", tmp_path)
    assert (code, f"{LABEL} on shapes-dev" in out) == (0, True), err


def test_a_served_model_is_probed(run, monkeypatch, tmp_path):
    served = []
    monkeypatch.setattr("vtrace.serve.server.run_server", lambda service, *rest: served.append(service))
    code, _, err = run("serve", *ASKED, "--port", "0", "--store", tmp_path / "history.sqlite")
    assert code == 0, err
    assert served[0].models.get("pinhole-internvl").probed


def test_the_doctor_says_what_probing_has_yet_to_find_out(run):
    code, out, _ = run("doctor", *ASKED, "--json")
    facts = json.loads(out)
    assert (code, facts["supported"], facts["family"]) == (0, True, "probed internvl")
    assert facts["status"].startswith("probed when it is loaded")


def test_a_server_cannot_be_probed(run):
    code, _, err = run("trace", "--family", "auto", "--endpoint", "http://localhost:1/v1", "--served-model", "x")
    assert code == 2
    assert err == "vtrace: --family auto cannot be combined with --endpoint: probing needs the weights of the model\n"
