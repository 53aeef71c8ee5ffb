"""`vtrace verify` and `vtrace explain --verify` as a user meets them."""

from __future__ import annotations

import json

import vtrace


def test_the_embedded_example_prints_its_proof_as_json(run):
    code, out, err = run("verify", "--target", "answer", "--json", "-", "--quiet")
    assert code == 0
    found = json.loads(out)
    assert found["answer"] == "blue cross"
    assert found["necessary"]["inputs"] == 1
    assert found["necessary"]["answer"] not in (None, "blue cross")
    assert [step["inputs"] for step in found["necessary"]["curve"]][:3] == [0, 1, 2]
    assert found["sufficient"]["inputs"] > 0
    assert found["sufficient"]["curve"][-1]["answer"] == "blue cross"
    assert found["random"]["draws"] == 8
    assert found["random"]["changed"] == 0
    assert found["verdict"].startswith("Hiding 1 of 64 patches changes the answer from 'blue cross' to ")
    assert found["passes"] <= 30
    assert err == "verifying: at most 29 forward passes and 8 generations (90 responses)\n"


def test_a_verified_explanation_is_saved_and_printed(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    place = tmp_path / "out.json"
    code, out, _ = run("explain", "--verify", "--passes", "21", "--json", place, "--html", tmp_path / "a.html")
    assert code == 0
    verification = vtrace.read(place).verification
    assert verification.passes <= 21
    assert verification.verdict in out
    assert "RISE" in out
    assert (tmp_path / "a.html").exists()


def test_another_method_and_setting(run, tmp_path):
    place = tmp_path / "found.json"
    options = ("--method", "random", "--setting", "image", "--draws", "2", "--seed", "3", "--quiet")
    code, _, err = run("verify", *options, "--json", place)
    assert code == 0
    assert f"wrote {place}" in err
    found = json.loads(place.read_text("utf-8"))
    assert (found["setting"], found["seed"]) == ("image", 3)
    assert found["count"] == {"patches": 64, "words": 0}


def test_what_cannot_be_verified_is_one_line(run, tmp_path):
    for options, words in (
        (("--method", "magic"), "unknown method 'magic'"),
        (("--setting", "text"), "setting is 'text'; use one of"),
        (("--passes", "3"), "passes is 3; verifying this explanation needs at least 19"),
    ):
        code, out, err = run("verify", *options, "--json", tmp_path / "a.json", "--quiet")
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
        assert not list(tmp_path.iterdir())
