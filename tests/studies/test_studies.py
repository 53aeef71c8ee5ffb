"""Studies: every one is well-formed, and one runs to its table and plot."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from PIL import Image

from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.methods.registry import METHODS
from vtrace.studies.plots import draw
from vtrace.studies.run import run_study
from vtrace.studies.study import STUDIES, Study, find_study
from vtrace.system.files import read_lines


@pytest.mark.parametrize("name", STUDIES)
def test_variants_are_methods_with_options_they_have(name):
    study = STUDIES[name]
    for label, (method, options) in study.variants.items():
        METHODS[method].check(label, options)
    if study.plot == "lines":
        points = [variant for series in study.series.values() for _, variant in series]
        assert points
        assert set(points) <= set(study.variants)


def test_an_unknown_study_is_named():
    with pytest.raises(InputError, match="unknown study 'nope'; there are: components"):
        find_study("nope")


def test_a_study_writes_its_table_and_its_plot_and_measures_nothing_twice(pinhole, tmp_path, monkeypatch):
    tiny = Study("three ways to guess", {"a": ("random", {}), "b": ("centre", {}), "c": ("position", {})})
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    page, *plots = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=2)
    text = page.read_text()
    assert "| target | items | setting | metric | a | b | c |" in text
    assert "response | 2 | image | RISE ins" in text
    assert [path.suffix for path in plots] == [".png", ".svg"]
    with Image.open(plots[0]) as picture:
        assert picture.width > 800

    def fail(*args, **kwargs):
        raise AssertionError("measured again")

    monkeypatch.setattr("vtrace.faithfulness.run._item", fail)
    assert run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=2)[0].read_text() == text
    run = read_run(tmp_path / "tiny")
    for plot in ("lines", "curves"):
        other = Study("drawn otherwise", tiny.variants, plot, "x", {"s": [(1.0, "a"), (2.0, "b")]})
        assert all(path.exists() for path in draw(plot, other, run, tabulate(run), tmp_path))


def test_variants_that_fail_everywhere_are_not_drawn_and_said_to_fail(pinhole, tmp_path, monkeypatch):
    def fail(session, target):
        raise InputError("not today")

    monkeypatch.setitem(METHODS, "broken", replace(METHODS["centre"], run=fail))
    tiny = Study("one works", {"a": ("random", {}), "b": ("broken", {})}, targets=("response",))
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=1)
    assert "| metric | a |\n" in page.read_text()
    assert "Failed everywhere: b: broken: not today" in page.read_text()
    monkeypatch.setitem(STUDIES, "none", replace(tiny, variants={"b": ("broken", {})}))
    with pytest.raises(InputError, match="the run has no results: broken: not today"):
        run_study("none", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=1)


def test_right_and_wrong_answers_are_looked_for_and_nothing_is_asked_twice(pinhole, tmp_path, monkeypatch):
    shapes = find_benchmark("shapes-dev")

    def example(number):  # Pinhole is seldom wrong, so some of the truth is changed
        known = shapes.example(number)
        return replace(known, answer="no such thing") if number in (3, 4, 7) else known

    tiny = Study("right and wrong", {"a": ("random", {})}, subsets=("correct", "incorrect"))
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    changed = replace(shapes, example=example)
    page, *_ = run_study("tiny", pinhole, changed, tmp_path, limit=4)
    run = read_run(tmp_path / "tiny")
    assert [(row["key"], row["correct"]) for row in run.rows["item"]] == [
        ("dev-00000", 1), ("dev-00001", 1), ("dev-00003", 0), ("dev-00004", 0),
    ]  # fmt: skip
    assert "| response, incorrect | 2 |" in page.read_text()
    assert len(read_lines(tmp_path / "tiny" / "verdicts.jsonl")) == 5  # the search stops when it has enough

    def fail(*args, **kwargs):
        raise AssertionError("asked again")

    monkeypatch.setattr("vtrace.studies.balance.trace", fail)
    text = page.read_text()
    assert run_study("tiny", pinhole, changed, tmp_path, limit=4)[0].read_text() == text


def test_a_benchmark_without_answers_has_no_right_and_wrong_ones(pinhole, tmp_path):
    shapes = find_benchmark("shapes-dev")
    unknown = replace(shapes, size=2, example=lambda number: replace(shapes.example(number), answer=None))
    with pytest.raises(InputError, match="none of 2 answers to shapes-dev could be graded"):
        run_study("correctness", pinhole, unknown, tmp_path, limit=4)


def test_the_command_lists_studies_and_refuses_others(run):
    code, out, _ = run("study", "list")
    assert code == 0
    assert all(name in out for name in STUDIES)
    code, out, err = run("study", "nope")
    assert (code, out) == (2, "")
    assert "unknown study" in err


def test_evaluate_and_table_on_the_command_line(run, tmp_path):
    folder = tmp_path / "run"
    code, out, _ = run("evaluate", "--methods", "random,centre", "--limit", "2", "--steps", "2", "--out", folder)
    assert code == 0
    assert out.strip() == str(folder / "run.sqlite")
    code, out, _ = run("table", folder, "--format", "json", "--parquet", tmp_path / "rows.parquet")
    assert code == 0
    assert json.loads(out)["methods"] == ["random", "centre"]
    assert (tmp_path / "rows.parquet").exists()
    assert (tmp_path / "rows-evidence.parquet").exists()
    for arguments, message in (
        (("table", tmp_path / "nowhere"), "there is no run at"),
        (("table", folder, "--format", "word"), "unknown format 'word'"),
        (("table", folder, "--methods", "ifr"), "the run has no results of ifr"),
        (("table", folder, "--against", "ifr"), "--against ifr is not a column; the columns are: random, centre"),
        (("table", folder, "--subsets", "half"), "unknown subset 'half'"),
        (("evaluate", "--benchmark", "nope"), "unknown benchmark 'nope'"),
        (("evaluate", "--shard", "two"), "cannot read --shard"),
        (("evaluate", "--shard", "3/2", "--out", folder), "shard 3/2 does not exist"),
        (("evaluate", "--target", "reasoning"), "cannot be evaluated"),
    ):
        code, out, err = run(*arguments)
        assert code == 2
        assert message in err
        assert out == ""
