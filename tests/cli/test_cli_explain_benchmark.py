"""`vtrace explain --benchmark`: a whole file at once."""

from __future__ import annotations

import json

import pytest

from vtrace.benchmarks.facts.sample import FACTS_PROMPT, FACTS_TOKENS


def test_a_benchmark_is_explained_into_a_folder_and_as_json(run, tmp_path):
    common = ["explain", "-b", "shapes-dev", "--limit", "1", "--max-new-tokens", "30", "--out", tmp_path]
    code, out, err = run(*common, "--json", "-")
    assert code == 0, err
    document = json.loads(out)
    assert [item["key"] for item in document["items"]] == ["dev-00000"]
    assert (tmp_path / document["items"][0]["page"]).exists()
    assert f"wrote {tmp_path}/index.html" in err
    code, out, _ = run(*common, "--json", tmp_path / "found.json")  # nothing is left to do
    assert (code, out.strip()) == (0, f"{tmp_path}/index.html")
    assert json.loads((tmp_path / "found.json").read_text("utf-8")) == document
    assert not [*tmp_path.glob("*-wal"), *tmp_path.glob("*-shm")], "databases are closed"


def test_a_benchmark_is_asked_under_its_own_prompt_and_budget(run, tmp_path):
    code, out, err = run("explain", "-b", "facts", "--limit", "1", "--out", tmp_path / "own", "--json", "-")
    assert code == 0, err
    asked = json.loads(out)
    assert (asked["system"], asked["max_new_tokens"]) == (FACTS_PROMPT, FACTS_TOKENS)
    given = ["--system", "Be brief.", "--max-new-tokens", "9"]
    code, out, err = run("explain", "-b", "facts", "--limit", "1", *given, "--out", tmp_path / "given", "--json", "-")
    assert code == 0, err
    asked = json.loads(out)
    assert (asked["system"], asked["max_new_tokens"]) == ("Be brief.", 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "shapes", "a.png", "What?"], "--benchmark and IMAGE… QUESTION are mutually exclusive"),
        (["--benchmark", "shapes", "--html", "a.html"], "--benchmark and --html are mutually exclusive"),
        (["--benchmark", "shapes", "--response", "x"], "--benchmark and --response are mutually exclusive"),
        (["--out", "explained"], "--out is for a whole benchmark; add --benchmark"),
        (["--workers", "2"], "--workers is for a whole benchmark; add --benchmark"),
        (["--benchmark", "shapes", "--address", "a:1"], "--address is an option of Ray; add --engine ray"),
        (["--benchmark", "shapes", "--device", "tensor-parallel"], "use --device auto here"),
        (["--benchmark", "nothing"], "unknown benchmark 'nothing'"),
        (["--benchmark", "nowhere.jsonl"], "there is no file or folder nowhere.jsonl"),
        (["--benchmark", "shapes", "--json", "/nowhere/a.json"], "there is no folder /nowhere"),
        (["--benchmark", "shapes", "--memory", "much"], "much"),
        (["--traces", "nowhere", "--html", "a.html"], "--traces and --html are mutually exclusive"),
        (["--traces", "nowhere"], "there are no responses in nowhere"),
        (["--benchmark", "shapes", "--out", "/dev/null/x"], "cannot write /dev/null/x"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(run, arguments, message):
    code, out, err = run("explain", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
