"""The study of `verify`: which examples it takes, and that its table says what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.studies.run import run_study
from vtrace.studies.study import Findings, StudySetup
from vtrace.studies.verify import DRAWN, EXPLANATIONS, VERIFY_STUDY, VerifiedExample
from vtrace.types import silent


@pytest.fixture(scope="module")
def setup(pinhole):
    return StudySetup(pinhole, find_benchmark("shapes-dev"), 0, 0.25)


def test_questions_with_two_possible_answers_are_left_out(setup):
    chosen = VERIFY_STUDY.choose(setup, None, 20, silent)
    assert len(chosen) == 20
    answers = {setup.benchmark.example(number).answer for number in chosen}
    assert not answers & {"yes", "no"}


def test_the_table_shows_the_shares_of_what_was_measured(setup):
    nothing: dict[str, int] = dict.fromkeys(EXPLANATIONS, 0)
    by_chance = {**nothing, "vtrace, answer": DRAWN}
    found = {
        "a": VerifiedExample(1, True, 0, {**nothing, "vtrace-ordered, answer": 1, "vtrace, answer": None}, nothing),
        "b": VerifiedExample(2, False, DRAWN, {**nothing, "vtrace-ordered, answer": 5, "vtrace, answer": 4}, by_chance),
    }
    text, figure = VERIFY_STUDY.report(Findings(setup, found, {}))
    shares = dict(line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    assert shares["hiding the true evidence changes the answer"] == "50.0 %"
    assert shares["hiding as many random patches does (8 draws each)"] == "50.0 %"
    assert shares["vtrace-ordered, answer: verify finds a set that changes the answer"] == "100.0 %"
    assert shares["vtrace-ordered, answer: at most 2 times as large as the evidence"] == "50.0 %"
    assert shares["vtrace, answer: at most 2 times as large as the evidence"] == "50.0 %"
    assert shares["vtrace, answer: as many random patches change the answer"] == "100.0 %"
    assert "1 with 1, 1 with 2" in text
    assert figure.axes


@pytest.mark.slow
def test_it_runs_and_resumes(setup, tmp_path):
    page = run_study("verify", setup.lvlm, setup.benchmark, tmp_path, limit=1)[0].read_text("utf-8")
    assert "| hiding the true evidence changes the answer | 100.0 % |" in page
    assert "pinhole on shapes-dev, 1 examples, seed 0" in page
    again = run_study("verify", setup.lvlm, setup.benchmark, tmp_path, limit=1)[0].read_text("utf-8")
    assert again == page


def test_a_benchmark_without_known_evidence_is_refused(setup):
    plain = replace(
        setup.benchmark, size=2, example=lambda number: replace(setup.benchmark.example(number), evidence_boxes=())
    )
    with pytest.raises(InputError, match="has no questions with known evidence; use shapes-dev or shapes"):
        VERIFY_STUDY.choose(replace(setup, benchmark=plain), None, 20, silent)
