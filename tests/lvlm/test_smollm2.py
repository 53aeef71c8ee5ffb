"""Pretrained weights: SmolLM2 answers, is explained word by word, and is evaluated on Facts."""

from __future__ import annotations

import numpy as np
import pytest

import vtrace
from support.real_parts import smollm2_cache
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cache() -> str:
    return str(smollm2_cache())


@pytest.fixture(scope="module")
def smollm2(cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTRACE_CACHE", cache)
        return vtrace.load("smollm2")


def test_it_answers_and_is_explained_by_its_words(smollm2):
    trace = vtrace.trace(smollm2, [], "What is the capital of France?", system="", max_new_tokens=12)
    assert "Paris" in trace.response
    found = vtrace.attribute(smollm2, trace, '"Paris"')
    assert found.calibration.status.startswith("skipped")
    words = {item.label: item.score for item in found.ranking()}
    assert sum(words.values()) == pytest.approx(1)
    assert words["France"] > words["the"]


def test_ordered_paths_are_finite_beside_massive_activations(smollm2):
    facts = find_benchmark("facts-dev")
    trace = vtrace.trace(smollm2, facts.example(0), system=facts.system, max_new_tokens=facts.max_new_tokens)
    session = TraceSession.open(smollm2, trace)
    scores = run_method("vtrace-ordered", session, find_target(trace, "response")).scores
    assert np.isfinite(scores).all()
    assert np.count_nonzero(scores[trace.positions("question")]) > len(trace.positions("question")) / 2


def test_an_evaluation_on_facts_measures_words_with_right_and_wrong_answers_apart(run, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("VTRACE_CACHE", cache)
    asked = ("--model", "smollm2", "--benchmark", "facts", "--limit", "3", "--steps", "3", "--out", tmp_path / "run")
    code, _, err = run("evaluate", *asked, "--methods", "vtrace,random", "--target", "response,answer")
    assert code == 0, err
    found = read_run(tmp_path / "run")
    assert found.settings["system"] == find_benchmark("facts").system
    assert {row["setting"] for row in found.rows.curve} == {"question"}
    assert all(row["tokens"] < 120 for row in found.rows.item)
    table = tabulate(found)
    assert table.find("response", "question evidence", "auc against others")
    code, out, _ = run("table", tmp_path / "run", "--subsets", "all,correct,incorrect")
    assert code == 0
    assert "| response | 3 | question | RISE ins ↑ |" in out
    assert "Answers: " in out
