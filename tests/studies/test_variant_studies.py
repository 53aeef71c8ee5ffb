"""Studies of variants: every one is well-formed, and small ones run to their table and plot."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.methods.registry import METHODS, find_method
from vtrace.studies.figures import LABEL, add_title, spread
from vtrace.studies.method_colours import METHOD_COLOURS, OTHER_COLOURS, colours_of
from vtrace.studies.registry import STUDIES, find_study
from vtrace.studies.run import measure_study, run_study
from vtrace.studies.store import StudyStore
from vtrace.studies.study import StudySetup
from vtrace.studies.variant_plots import Bars, MeanCurves, ParameterLines, PlacedVariant
from vtrace.studies.variant_study import Variant, VariantStudy

VARIANT_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, VariantStudy)]
GUESSES = {"a": Variant("random"), "b": Variant("centre"), "c": Variant("position")}


@pytest.fixture(scope="module")
def setup(pinhole):
    benchmark = find_benchmark("shapes-dev")
    return StudySetup(pinhole, benchmark, 0, benchmark.blur)


@pytest.mark.parametrize("name", VARIANT_STUDIES)
def test_variants_are_methods_with_options_they_have(name):
    study = STUDIES[name]
    for label, variant in study.variants.items():
        find_method(variant.method).check(label, variant.options)
    if isinstance(study.plot, ParameterLines):
        points = [place.variant for series in study.plot.series.values() for place in series]
        assert points
        assert set(points) <= set(study.variants)


def test_a_method_has_one_colour_in_all_plots():
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS)
    assert set(METHODS) <= set(METHOD_COLOURS)
    assert colours_of(["γ", "VTrace"])["VTrace"] == colours_of(["random", "vtrace"])["vtrace"]
    assert not set(OTHER_COLOURS) & set(METHOD_COLOURS.values())


def test_variants_have_lighter_colours_of_their_method_and_labels_keep_their_order():
    labels = ["no centring", "ordered, columns", "ordered", "ordered, calibrated", "off"]
    colours = colours_of(labels)
    assert list(colours) == labels
    assert len(set(colours.values())) == len(labels)
    assert colours["ordered"] == METHOD_COLOURS["vtrace-ordered"]
    assert {colours["no centring"], colours["off"]} <= set(OTHER_COLOURS)
    brightness = {label: sum(to_rgb(colour)) for label, colour in colours.items()}
    assert brightness["ordered"] < brightness["ordered, columns"] < brightness["ordered, calibrated"]


@pytest.mark.parametrize("plot", [Bars(), MeanCurves()])
def test_nothing_of_a_plot_is_cut_off_and_no_heading_lies_on_another(plot, run_folder):
    run = read_run(run_folder)
    table = tabulate(run)
    table = replace(table, lines=[replace(line, subset="incorrect") for line in table.lines])  # the longest headings
    figure = plot.draw(run, table)
    add_title(figure, "A title that says what is shown, in as many lines as it needs " * 3, "pinhole on shapes-dev")
    figure.draw_without_rendering()
    page = figure.bbox.padded(1)
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = {text: text.get_window_extent() for text in texts}
    assert [text.get_text() for text, box in boxes.items() if not page.contains(*box.min)] == []
    assert [text.get_text() for text, box in boxes.items() if not page.contains(*box.max)] == []
    headings = [box for text, box in boxes.items() if text.get_fontsize() >= LABEL]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(headings, 2))


@pytest.mark.parametrize("heights", [[0.5] * 6, [0.99, 1.0], [0.0, 0.01, 0.9], []])
def test_labels_stay_apart_in_order_and_beside_the_axes(heights):
    found = spread(heights, 0.085)
    assert found == sorted(found)
    assert all(later - earlier > 0.08 for earlier, later in itertools.pairwise(found))
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in found)


def test_an_unknown_study_is_named():
    with pytest.raises(InputError, match="unknown study 'nope'; use one of: components"):
        find_study("nope")


@pytest.mark.slow
def test_a_study_writes_its_table_and_its_plot_and_measures_nothing_twice(pinhole, setup, tmp_path, monkeypatch):
    tiny = VariantStudy("tiny", "three ways to guess", GUESSES)
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    page, *plots = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=2)
    text = page.read_text()
    assert "| target | items | setting | metric | a | b | c |" in text
    assert "response | 2 | image | RISE ins" in text
    assert [path.suffix for path in plots] == [".png", ".pdf", ".svg"]
    with Image.open(plots[0]) as picture:
        assert picture.width > 800

    def fail(*args, **kwargs):
        raise AssertionError("measured again")

    monkeypatch.setattr("vtrace.studies.variant_study.measure_item", fail)
    assert run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=2)[0].read_text() == text
    findings = measure_study(tiny, setup, tmp_path / "tiny", 2)
    for plot in (ParameterLines("x", {"s": [PlacedVariant(1.0, "a"), PlacedVariant(2.0, "b")]}), MeanCurves()):
        report = replace(tiny, plot=plot).report(findings)
        assert all(ax.lines for ax in report.figure.axes)


def test_only_what_failed_is_measured_again(setup, tmp_path, monkeypatch):
    broken = [True]

    def sometimes(session, target):
        if broken:
            raise InputError("not today")
        return METHODS["centre"].run(session, target)

    monkeypatch.setitem(METHODS, "broken", replace(METHODS["centre"], run=sometimes))
    tiny = VariantStudy("tiny", "one fails", {"a": Variant("random"), "b": Variant("broken")}, targets=("response",))
    first = measure_study(tiny, setup, tmp_path, 1).found["dev-00000"]
    assert [row["method"] for row in first.result] == ["a"]
    assert [row["method"] for row in first.failure] == ["b"]
    broken.clear()
    second = measure_study(tiny, setup, tmp_path, 1).found["dev-00000"]
    assert second.result[:1] == first.result  # with the seconds it took then
    assert [row["method"] for row in second.result] == ["a", "b"]
    assert second.failure == []
    assert len(second.curve) == 2 * len(first.curve)
    assert second.item == first.item


def test_variants_that_fail_everywhere_are_not_drawn_and_said_to_fail(pinhole, tmp_path, monkeypatch):
    def fail(session, target):
        raise InputError("not today")

    monkeypatch.setitem(METHODS, "broken", replace(METHODS["centre"], run=fail))
    tiny = VariantStudy("tiny", "one works", {"a": Variant("random"), "b": Variant("broken")}, targets=("response",))
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    page, *_ = run_study("tiny", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=1)
    assert "| metric | a |\n" in page.read_text()
    assert "Failed everywhere: b: broken: not today" in page.read_text()
    monkeypatch.setitem(STUDIES, "none", replace(tiny, name="none", variants={"b": Variant("broken")}))
    with pytest.raises(InputError, match="the run has no results: broken: not today"):
        run_study("none", pinhole, find_benchmark("shapes-dev"), tmp_path, limit=1)


@pytest.mark.slow
def test_right_and_wrong_answers_are_looked_for_and_nothing_is_asked_twice(pinhole, setup, tmp_path, monkeypatch):
    shapes = find_benchmark("shapes-dev")

    def example(number):  # Pinhole is rarely wrong, so some of the truth is changed
        known = shapes.example(number)
        return replace(known, answer="no such thing") if number in (3, 4, 7) else known

    tiny = VariantStudy("tiny", "right and wrong", {"a": Variant("random")}, subsets=("correct", "incorrect"))
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    changed = replace(shapes, example=example)
    page, *_ = run_study("tiny", pinhole, changed, tmp_path, limit=4)
    text = page.read_text()
    assert "| response, incorrect | 2 |" in text

    def fail(*args, **kwargs):
        raise AssertionError("asked again")

    monkeypatch.setattr("vtrace.studies.study.trace", fail)
    found = measure_study(tiny, replace(setup, benchmark=changed), tmp_path / "tiny", 4).found
    assert [(key, rows.item[0]["correct"]) for key, rows in found.items()] == [
        ("dev-00000", True),
        ("dev-00001", True),
        ("dev-00003", False),
        ("dev-00004", False),
    ]
    with StudyStore(tmp_path / "tiny", {}) as store:
        assert len(store.verdicts()) == 5  # the search stops when it has enough
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
