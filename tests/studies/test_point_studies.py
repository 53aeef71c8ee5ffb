"""Studies that measure points of a plot: what they measure, and that interrupted ones resume."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.curves import ranked
from vtrace.faithfulness.statistics import Summary
from vtrace.methods.registry import run_method
from vtrace.studies import blur, budget, credit, efficiency
from vtrace.studies.point_plots import MeanPoint, PlotPanel, draw_panels
from vtrace.studies.point_study import Point, PointStudy
from vtrace.studies.registry import STUDIES
from vtrace.studies.run import run_study
from vtrace.studies.store import STUDY_FILE
from vtrace.tracing.targets import find_target

POINT_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, PointStudy)]
ONE_PANEL = {"p": PlotPanel("x", "y")}


def by_panel(points, panel):
    return {(point.series, point.x): point.y for point in points if point.panel == panel}


@pytest.mark.parametrize("name", POINT_STUDIES)
def test_points_belong_to_panels(pinhole_session, name, monkeypatch):
    monkeypatch.setattr(efficiency, "LENGTHS", (256,))
    monkeypatch.setattr(efficiency, "TIMED_METHODS", ("vtrace", "rollout"))
    monkeypatch.setattr(blur, "RADII", (0.04, 0.25))
    points = STUDIES[name].points(pinhole_session, 0.25, 0)
    assert {point.panel for point in points} == set(STUDIES[name].panels)
    assert np.isfinite([number for point in points for number in (point.x, point.y)]).all()


def test_a_budget_of_everything_brings_everything_back(trace, pinhole_session, monkeypatch):
    monkeypatch.setattr(budget, "BUDGETS", (20, 100))
    monkeypatch.setattr(budget, "COMPARED_METHODS", ("ifr",))
    points = budget.budget_points(pinhole_session, 0.25, 0)
    assert by_panel(points, "recovery")["ifr", 100] == pytest.approx(1)
    inputs, image = trace.positions("image", "question"), trace.positions("image")
    assert by_panel(points, "image tokens")["ifr", 100] == pytest.approx(100 * len(image) / len(inputs))
    scores = run_method("ifr", pinhole_session, find_target(trace, "answer")).scores
    top = ranked(scores, inputs)[: round(0.2 * len(inputs))]
    assert by_panel(points, "image tokens")["ifr", 20] == pytest.approx(100 * np.isin(top, image).mean())


def test_credit_by_distance_is_all_of_it(pinhole_session):
    points = by_panel(credit.credit_points(pinhole_session, 0.25, 0), "distance")
    for name in {series for series, _ in points}:
        assert sum(y for (series, _), y in points.items() if series == name) == pytest.approx(1)
    assert credit.credit_by_distance(np.array([1.0, 2.0, 1.0, 9.0]), 3) == pytest.approx([0.25, 0.75, 0, 0, 0, 0])


def test_an_interrupted_study_resumes_but_only_with_the_same_weights(pinhole, random_lvlm, tmp_path, monkeypatch):
    seen = []

    def points(session, blur, seed):
        seen.append(session.trace.question)
        words = float(len(session.trace.question.split()))
        return [Point("lengths", "words", 1.0, words), Point("dots", "words", len(seen), 1.0)]

    panels = {"lengths": PlotPanel("x", "words"), "dots": PlotPanel("x", "y", scatter=True)}
    monkeypatch.setitem(STUDIES, "tiny", PointStudy("tiny", "counts words", panels, points, limit=2))
    benchmark = find_benchmark("shapes-dev")
    run_study("tiny", pinhole, benchmark, tmp_path, limit=1)
    page, *plots = run_study("tiny", pinhole, benchmark, tmp_path)
    assert len(seen) == 2
    text = page.read_text()
    assert "| words | 1.500 | 1.000 |" in text  # a dot lies at the mean of its points
    assert "| lengths, 2 examples: words by x |" in text
    assert all(path.stat().st_size for path in plots)
    assert run_study("tiny", pinhole, benchmark, tmp_path)[0].read_text() == text
    assert len(seen) == 2
    assert [path.name for path in (tmp_path / "tiny").glob("*.sqlite")] == [STUDY_FILE]
    with pytest.raises(InputError, match=r"tiny.* was made with seed 0, not 1; choose another --out"):
        run_study("tiny", pinhole, benchmark, tmp_path, seed=1)
    with pytest.raises(InputError, match=r"was made with revision 'weights .*', not 'weights "):
        run_study("tiny", replace(random_lvlm, name=pinhole.name), benchmark, tmp_path)


def test_items_that_cannot_be_measured_are_counted(pinhole, tmp_path, monkeypatch):
    def points(session, blur, seed):
        if seen:
            raise InputError("no final answer")
        seen.append(1)
        return [Point("p", "s", 0.0, 1.0)]

    seen: list[int] = []
    monkeypatch.setitem(STUDIES, "tiny", PointStudy("tiny", "half of it", ONE_PANEL, points, limit=2))
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "1 example, seed 0.\nLeft out, 1 of 2: no final answer.\n" in page.read_text()


def test_what_went_wrong_is_tried_again(pinhole, tmp_path, monkeypatch):
    def points(session, blur, seed):
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("CUDA out of memory")
        return [Point("p", "s", 0.0, 1.0)]

    tried: list[int] = []
    monkeypatch.setitem(STUDIES, "tiny", PointStudy("tiny", "fails once", ONE_PANEL, points, limit=1))
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "Left out, 1 of 1: the study: out of memory" in page.read_text()
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "1 example, seed 0." in page.read_text()


def test_a_bug_of_ours_on_one_example_is_logged(pinhole, tmp_path, monkeypatch):
    def points(session, blur, seed):
        raise RuntimeError("The size of tensor a (3) must match the size of tensor b (4)")

    monkeypatch.setitem(STUDIES, "tiny", PointStudy("tiny", "is broken", ONE_PANEL, points, limit=1))
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path)
    assert "Left out, 1 of 1: an error inside VTrace (RuntimeError: The size of tensor a (3)" in page.read_text()
    (log,) = tmp_path.rglob("errors.log")
    assert "Traceback" in log.read_text()


def test_numbers_below_an_axis_do_not_run_into_each_other():
    means = {("p", "a"): [MeanPoint(x, Summary(y, y, y)) for y, x in enumerate((1, 2, 5, 10, 20, 30, 50))]}
    for columns in (1, 2):
        panels = {name: PlotPanel("x", "y", log_x=True) for name in ("p", "q")[:columns]}
        figure = draw_panels(panels, means)
        figure.canvas.draw()
        ticks = [tick for tick in figure.axes[0].get_xticklabels() if tick.get_text()]
        assert [tick.get_text() for tick in ticks] == ["1", "2", "5", "10", "20", "50"]
        assert len(figure.axes[0].get_xticks()) == 7
        assert figure.axes[0].get_ylim() == pytest.approx((-0.3, 6.3))  # of the data, not of the names beside them
        boxes = [tick.get_window_extent() for tick in ticks]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
