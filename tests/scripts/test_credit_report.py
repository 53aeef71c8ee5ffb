"""The report of the credit experiment keeps what was reported before, and says what was and could have been seen."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SETUP = {
    "start": "noisy",
    "steps": 8,
    "prompts": 8,
    "rollouts": 8,
    "learning_rate": 1e-4,
    "trained": "decoder",
    "test_questions": 600,
}


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("credit_report")


@pytest.fixture
def docs(tmp_path, report):
    for folder in ("results", "explanation"):
        (tmp_path / "docs" / folder).mkdir(parents=True)
    page = tmp_path / "docs" / "explanation" / "credit.md"
    page.write_text(f"before\n\n{report.BEGIN}\n\nold\n\n{report.END}\n\nafter\n")
    return page.parents[1]


def finished(folder, accuracies, setup=SETUP, temperature=1.0):
    """Files of finished runs: test accuracies by arm, one for each seed."""
    folder.mkdir(exist_ok=True)
    sampling = {"temperature": temperature, "top_p": 0.95}
    start = {"setup": setup, **sampling, "test_accuracy": 0.5, "dev_accuracy": 0.5}
    (folder / f"start-{temperature}.json").write_text(json.dumps(start))
    for arm, found in accuracies.items():
        for seed, accuracy in enumerate(found):
            run = {
                "arm": arm,
                **sampling,
                "seed": seed,
                "setup": setup,
                "dev": [{"step": 0, "accuracy": 0.5}, {"step": 8, "accuracy": accuracy}],
                "test_accuracy": accuracy,
                "steps": [{"frac_reward_zero_std": 0.25, "credit/mean_weight": 1.2}],
            }
            (folder / f"{arm}-{temperature}-{seed}.json").write_text(json.dumps(run))
    return folder


def test_runs_are_reported_again_without_their_files(report, docs, tmp_path):
    first = finished(tmp_path / "first", {"none": [0.6, 0.61, 0.62], "vtrace": [0.63, 0.65, 0.64]})
    assert report.write_report(first, docs)
    page = (docs / "explanation" / "credit.md").read_text()
    (tmp_path / "empty").mkdir()
    assert report.write_report(tmp_path / "empty", docs)
    assert (docs / "explanation" / "credit.md").read_text() == page
    assert page.startswith("before")
    assert page.endswith("after\n")
    assert "old" not in page
    assert "| vtrace | 3 | 0.640 ± 0.025 | +0.030 ± 0.025 |" in page
    assert "`vtrace` is 0.030 above no credit (3 seeds;" in page


def test_runs_of_a_set_up_that_were_reported_are_known(report, docs, tmp_path):
    assert report.reported_runs(docs, SETUP) == set()
    report.write_report(finished(tmp_path / "first", {"none": [0.6, 0.61], "random": [0.6]}), docs)
    assert report.reported_runs(docs, SETUP) == {("none", 1.0, 0), ("none", 1.0, 1), ("random", 1.0, 0)}
    assert report.reported_runs(docs, {**SETUP, "steps": 9}) == set()


def test_more_seeds_and_temperatures_join_what_is_known(report, docs, tmp_path):
    report.write_report(finished(tmp_path / "first", {"none": [0.6, 0.61]}), docs)
    more = finished(tmp_path / "more", {"none": [0.6, 0.61, 0.62], "random": [0.6]})
    finished(more, {"none": [0.55]}, temperature=0.7)
    report.write_report(more, docs)
    warm, cold = json.loads((docs / "results" / "credit-experiment.json").read_text())
    assert [len(warm["arms"]["none"]), len(warm["arms"]["random"]), len(cold["arms"]["none"])] == [3, 1, 1]


def test_runs_of_another_set_up_replace_the_old_ones(report, docs, tmp_path):
    report.write_report(finished(tmp_path / "first", {"none": [0.6, 0.61]}), docs)
    report.write_report(finished(tmp_path / "other", {"none": [0.7]}, {**SETUP, "steps": 4}), docs)
    (block,) = json.loads((docs / "results" / "credit-experiment.json").read_text())
    assert {seed: run["test"] for seed, run in block["arms"]["none"].items()} == {"0": 0.7}


def test_if_nothing_was_learnt_the_page_says_so(report, docs, tmp_path):
    report.write_report(finished(tmp_path / "runs", {"none": [0.5, 0.49, 0.51], "vtrace": [0.5, 0.5, 0.51]}), docs)
    assert "these runs say nothing about it" in (docs / "explanation" / "credit.md").read_text()


def test_the_plot_shows_each_difference_and_how_many_seeds_it_has(report, tmp_path):
    blocks = report.read_runs(
        finished(tmp_path / "runs", {"none": [0.6, 0.61], "vtrace": [0.63, 0.65], "random": [0.6]})
    )
    (axes,) = report.draw(blocks).axes
    written = [text.get_text() for text in axes.texts]
    assert [name for name in written if name in report.ARMS] == ["random", "vtrace"]
    assert [name for name in written if "seed" in name] == ["1 seed", "2 seeds"]
    assert "Noisy start, T = 1, top-p = 0.95; learnt without credit: +0.105 ± 0.064" in written


def test_without_runs_nothing_is_written(report, docs, tmp_path):
    (tmp_path / "empty").mkdir()
    assert not report.write_report(tmp_path / "empty", docs)
    assert not list((docs / "results").iterdir())
