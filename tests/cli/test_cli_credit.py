"""`vtrace credit` as a user meets it."""

from __future__ import annotations

import inspect
import json

import pytest
from PIL import Image

import vtrace
from vtrace.cli.credit import credit_command
from vtrace.credit.credit import Credit
from vtrace.credit.sources import SOURCES
from vtrace.credit.weights import RULES


@pytest.fixture
def saved(trace, tmp_path):
    return vtrace.save(trace, tmp_path / "trace.json")


def test_one_trace_to_weights_and_a_picture(run, saved, tmp_path):
    out, png = tmp_path / "w.jsonl", tmp_path / "w.png"
    code, shown, err = run("credit", "--traces", saved, "--out", out, "--png", png)
    assert code == 0
    assert err.splitlines() == [f"wrote {out}", f"wrote {png}"]
    assert "vtrace · top 40 % × 1.5 · pinhole" in shown
    assert shown.splitlines()[-1] == "1 response: 1 assigned. Mean weight 1.18."
    (row,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert set(row["weights"]) == {1.0, 1.5}
    with Image.open(png) as picture:
        assert picture.format == "PNG"


def test_a_table_with_bad_rows(run, trace, tmp_path):
    trace.images[0].save(tmp_path / "a.png")
    asked = {"image": "a.png", "question": trace.question}
    lines = [
        {**asked, "response": "It is a star."},
        {**asked, "response": trace.response},
        *({**asked, "image": f"{k}.png", "response": "?"} for k in range(12)),
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ("--traces", tmp_path / "r.jsonl", "--source", "random", "--seed", "3", "--rule", "mean-one")
    code, shown, err = run("credit", *options)
    assert code == 0
    assert shown.splitlines()[-1] == "2 responses: 1 no answer, 1 assigned; 12 left out. Mean weight 1."
    assert "Response  1" in shown, "the first one that has credit"
    assert err.count("vtrace: 1 left out, there is no picture at") == 10
    assert err.splitlines()[-1] == "vtrace: 2 more reasons; --json prints all"
    code, shown, _ = run("credit", *options, "--json", "--system", "")
    summary = json.loads(shown)
    assert (code, summary["rows"], len(summary["left_out"])) == (0, 2, 12)
    code, shown, err = run("credit", *options, "--response", "0")
    assert "no answer: all" in shown
    code, _, err = run("credit", *options, "--response", "5")
    assert (code, err.splitlines()[-1]) == (2, "vtrace: there is no picture of 5: it was left out")


def test_sources_and_rules_are_listed(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, shown, _ = run("credit", "--list")
    assert code == 0
    assert all(text in shown for name, source in SOURCES.items() for text in (name, source.about))
    assert all(text in shown for pair in RULES.items() for text in pair)
    listed = json.loads(run("credit", "--list", "--json")[1])
    assert (list(listed["sources"]), list(listed["rules"])) == (list(SOURCES), list(RULES))


def test_the_defaults_are_those_of_the_library():
    options = inspect.signature(credit_command).parameters
    for name, field in Credit.__dataclass_fields__.items():
        assert options[name].default == field.default, name


BAD = {
    "no traces": ([], "give the responses with --traces"),
    "no such file": (["--traces", "nothing.json"], "there is no file or folder nothing.json"),
    "no such folder": (["--traces", "nothing"], "there is no file or folder nothing"),
    "source": (["--traces", "trace.json", "--source", "luck"], "unknown source 'luck'; use one of: vtrace"),
    "rule": (["--traces", "trace.json", "--rule", "luck"], "unknown rule 'luck'; use one of: top"),
    "share": (["--traces", "trace.json", "--share", "0"], "share is 0.0"),
    "boost": (["--traces", "trace.json", "--boost", "0.5"], "boost is 0.5; give a number of at least 1"),
    "format": (["--traces", "trace.json", "--out", "w.txt"], "the name has to end in .jsonl or .parquet"),
    "folder of the file": (["--traces", "trace.json", "--out", "no/w.jsonl"], "there is no folder no"),
    "key": (["--traces", "trace.json", "--response", "b"], "there is no response 'b'; there are: trace"),
    "itself": (["--traces", "r.jsonl", "--out", "r.jsonl"], "r.jsonl is one of the inputs; choose another --out"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing_behind(run, saved, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.jsonl").write_text("{}")
    arguments, message = BAD[case]
    code, out, err = run("credit", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "trace.json"]
