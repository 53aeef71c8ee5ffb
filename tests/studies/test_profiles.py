"""Studies that are points of a plot: what they measure, and that they go on where they stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.curves import ranked
from vtrace.methods.registry import run_method
from vtrace.studies import profiles
from vtrace.studies.journal import Journal
from vtrace.studies.profiles import Panel, Profile
from vtrace.studies.run import run_study
from vtrace.studies.study import PROFILES
from vtrace.tracing.targets import find_target


def by_panel(points, panel):
    return {(series, x): y for where, series, x, y in points if where == panel}


@pytest.mark.parametrize("name", PROFILES)
def test_points_belong_to_panels(pinhole, trace, name, monkeypatch):
    monkeypatch.setattr(profiles, "LENGTHS", (256,))
    monkeypatch.setattr(profiles, "RADII", (0.04, 0.25))
    monkeypatch.setattr(profiles, "TIMED", ("vtrace", "rollout"))
    points = PROFILES[name].measure(pinhole, trace, 0.25, 0)
    assert {panel for panel, *_ in points} == set(PROFILES[name].panels)
    assert np.isfinite([number for *_, x, y in points for number in (x, y)]).all()


def test_a_budget_of_everything_brings_everything_back(pinhole, trace, pinhole_session, monkeypatch):
    monkeypatch.setattr(profiles, "BUDGETS", (20, 100))
    monkeypatch.setattr(profiles, "COMPARED", ("ifr",))
    points = profiles.budget(pinhole, trace, 0.25, 0)
    assert by_panel(points, "recovery")["ifr", 100] == pytest.approx(1)
    inputs, image = trace.positions("image", "question"), trace.positions("image")
    assert by_panel(points, "image tokens")["ifr", 100] == pytest.approx(100 * len(image) / len(inputs))
    scores = run_method("ifr", pinhole_session, find_target(trace, "answer")).scores
    top = ranked(scores, inputs)[: round(0.2 * len(inputs))]
    assert by_panel(points, "image tokens")["ifr", 20] == pytest.approx(100 * np.isin(top, image).mean())


def test_credit_by_distance_is_all_of_it(pinhole, trace):
    points = by_panel(profiles.credit(pinhole, trace, 0.25, 0), "distance")
    for name in {series for series, _ in points}:
        assert sum(y for (series, _), y in points.items() if series == name) == pytest.approx(1)
    assert profiles._by_distance(np.array([1.0, 2.0, 1.0, 9.0]), 3) == pytest.approx([0.25, 0.75, 0, 0, 0, 0])


def test_a_profile_goes_on_where_it_stopped_and_only_with_the_same_weights(pinhole, random_lvlm, tmp_path, monkeypatch):
    seen = []

    def measure(lvlm, trace, blur, seed):
        seen.append(trace.question)
        return [("lengths", "words", 1.0, float(len(trace.question.split()))), ("dots", "words", len(seen), 1.0)]

    panels = {"lengths": Panel("x", "words"), "dots": Panel("x", "y", scatter=True)}
    monkeypatch.setitem(PROFILES, "tiny", Profile("counts words", panels, measure, limit=2))
    benchmark = find_benchmark("shapes-dev")
    page, *plots = run_study("tiny", pinhole, benchmark, tmp_path)
    text = page.read_text()
    assert "| words | 1.500 | 1.000 |" in text  # a dot lies at the mean of its points
    assert "| lengths, 2 examples: words by x |" in text
    assert all(path.stat().st_size for path in plots)
    points = tmp_path / "tiny" / "points.jsonl"
    points.write_text(points.read_text() + '{"item": "cut o')  # killed while it wrote
    assert run_study("tiny", pinhole, benchmark, tmp_path)[0].read_text() == text
    assert len(seen) == 2
    with pytest.raises(InputError, match=r"tiny was made with seed 0, not 1; choose another --out"):
        run_study("tiny", pinhole, benchmark, tmp_path, seed=1)
    with pytest.raises(InputError, match=r"was made with revision 'weights .*', not 'weights "):
        run_study("tiny", replace(random_lvlm, name=pinhole.name), benchmark, tmp_path)


def test_items_that_cannot_be_measured_are_counted(pinhole, tmp_path, monkeypatch):
    def measure(lvlm, trace, blur, seed):
        if seen:
            raise InputError("no final answer")
        seen.append(1)
        return [("p", "s", 0.0, 1.0)]

    seen: list[int] = []
    monkeypatch.setitem(PROFILES, "tiny", Profile("half of it", {"p": Panel("x", "y")}, measure, limit=2))
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "1 examples, seed 0.\nLeft out, 1 of 2: no final answer.\n" in page.read_text()
    lines = (tmp_path / "tiny/points.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [[["p", "s", 0.0, 1.0]]]


def test_a_journal_belongs_to_one_process_and_to_one_set_of_settings(tmp_path):
    path = tmp_path / "deep" / "points.jsonl"
    with Journal(path, {"seed": 0}) as journal:
        journal.add("a", [1])
        with pytest.raises(InputError, match=r"another process is writing to .*points\.jsonl"):
            Journal(path, {"seed": 0})
    with Journal(path, {"seed": 0}) as journal:
        assert journal.known == {"a": [1]}
    with pytest.raises(InputError, match="was made with seed 0, not 1; choose another --out"):
        Journal(path, {"seed": 1})
    for damage, message in ((b'{"points": 1}\n', "is damaged; move it away"), (b"\xff\xfe", "cannot read .*; move it")):
        path.write_bytes(damage)
        with pytest.raises(InputError, match=message):
            Journal(path, {"seed": 0})
    with pytest.raises(InputError, match=r"cannot write .*; choose another --out"):
        Journal(path / "below" / "points.jsonl", {})


def test_what_went_wrong_is_tried_again(pinhole, tmp_path, monkeypatch):
    def measure(lvlm, trace, blur, seed):
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("CUDA out of memory")
        return [("p", "s", 0.0, 1.0)]

    tried: list[int] = []
    monkeypatch.setitem(PROFILES, "tiny", Profile("fails once", {"p": Panel("x", "y")}, measure, limit=1))
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "Left out, 1 of 1: the study: out of memory" in page.read_text()
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "1 examples, seed 0." in page.read_text()
