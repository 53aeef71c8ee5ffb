"""The sanity study: which weights are randomised, what is explained, and that controls are told from methods."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from vtrace.benchmarks.registry import find_benchmark
from vtrace.studies import sanity
from vtrace.studies.registry import STUDIES
from vtrace.studies.run import run_study
from vtrace.studies.study import StudySetup
from vtrace.tracing.reply import Reply


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(sanity, "CHECKED_METHODS", ("vtrace", "position"))
    monkeypatch.setattr(sanity, "SHARES", (0.0, 1.0))


def test_weights_are_randomised_from_the_top_down_in_a_copy(pinhole):
    before = [weights.clone() for weights in pinhole.model.parameters()]
    layers = list(pinhole.seam.decoder.layers)

    def changed(lvlm):
        pairs = zip(layers, lvlm.seam.decoder.layers, strict=True)
        return [not torch.equal(a.mlp.up_proj.weight, b.mlp.up_proj.weight) for a, b in pairs]

    counts = []
    for lvlm in sanity.cascade(pinhole, seed=0):
        found = changed(lvlm)
        counts.append(sum(found))
        assert found == [False] * (len(found) - sum(found)) + [True] * sum(found)
        own, other = layers[-1].mlp.up_proj.weight, lvlm.seam.decoder.layers[-1].mlp.up_proj.weight
        assert torch.equal(own.flatten().sort().values, other.flatten().sort().values)
    assert counts == [round(share * len(layers)) for share in sanity.SHARES]
    assert all(torch.equal(a, b) for a, b in zip(before, pinhole.model.parameters(), strict=True))


def test_a_shuffled_reply_has_the_same_tokens_and_the_same_end():
    reply = sanity.shuffled(Reply(list(range(20)), "supplied"), seed=3)
    assert sorted(reply.ids) == list(range(20))
    assert reply.ids[-1] == 19
    assert reply.ids != list(range(20))


def test_a_control_that_ignores_the_model_does_not_pass(pinhole, few):
    setup = StudySetup(pinhole, find_benchmark("shapes-dev"), seed=0, blur=0.25)
    points = STUDIES["sanity"].measure(setup, 0, None)
    assert {point.panel for point in points} == set(sanity.PANELS)
    found = {(point.panel, point.series, point.x): point.y for point in points}
    for method in ("vtrace", "position"):
        assert found["weights", method, 0] == found["responses", method, 0] == pytest.approx(1)
    assert found["weights", "position", 100] == pytest.approx(1)
    assert found["weights", "vtrace", 100] < 0.9
    assert found["responses", "vtrace", 2] < 0.999


def test_without_known_evidence_two_panels_are_left(pinhole, few, tmp_path):
    shapes = find_benchmark("shapes-dev")
    blind = replace(
        shapes, example=lambda number: replace(shapes.example(number), evidence_boxes=(), evidence_words=())
    )
    page, *plots = run_study("sanity", pinhole, blind, tmp_path, limit=1)
    text = page.read_text()
    assert "| weights, 1 example: rank correlation with the trained model by layers randomised" in text
    assert "| own | shuffled | foreign |" in text
    assert "evidence" not in text
    assert all(plot.stat().st_size for plot in plots)
