"""Evidence metrics: hand-made cases, expectations for ties, and the real positions of an embedded example."""

from __future__ import annotations

import numpy as np
import pytest

import vtrace
from vtrace.faithfulness.evidence import captured_dependence, evidence_positions, localisation, other_positions


def test_a_perfect_attribution_has_perfect_metrics():
    scores = np.array([0, 0, 5.0, 4.0] + [0.0] * 16)
    found = localisation(scores, range(20), [2, 3])
    assert found["energy"] == found["pointing"] == found["auc"] == found["recall_10"] == 1
    assert found["recall_5"] == 0.5  # one of two fits
    assert found["base"] == 0.1


def test_ties_count_as_what_chance_would_give():
    found = localisation(np.ones(20), range(20), [0, 1, 2, 3])
    assert found["energy"] == found["pointing"] == pytest.approx(0.2)
    assert found["auc"] == 0.5
    assert found["recall_20"] == pytest.approx(0.2)


def test_negative_scores_carry_no_energy():
    assert localisation(np.array([1.0, -5.0, 1.0, 0.0]), range(4), [0])["energy"] == 0.5


def test_without_evidence_or_with_nothing_else_there_is_no_metric():
    assert localisation(np.ones(4), range(4), []) == {}
    assert localisation(np.ones(4), range(4), range(4)) == {}


def test_dependence_captured_is_a_share_of_what_was_measured():
    reference = np.array([4.0, 3.0, 2.0, 1.0, -9.0])
    assert captured_dependence(np.array([0, 0, 0, 9.0, 1.0]), reference, range(5), top=0.2) == pytest.approx(0.1)
    by_size = captured_dependence(reference, reference, range(5), top=0.4)
    assert by_size == pytest.approx(0.4)  # the -9 ranks first by its size, and was no dependence


def test_evidence_of_an_embedded_example_lies_where_its_boxes_and_words_are(trace):
    patches, words = evidence_positions(trace)
    assert patches
    boxes = {p.position: p.box for p in trace.patches}
    for position in patches:
        left, top, right, bottom = boxes[position]
        assert any(a < right and left < c and b < bottom and top < d for a, b, c, d in trace.evidence_boxes)
    text = "".join(trace.text[slice(*trace.offsets[p])] for p in words)
    for low, high in trace.evidence_words:
        assert trace.question[low:high].split()[0] in text
    assert len(words) < len(trace.positions("question"))


def test_against_other_things_the_background_does_not_count():
    """A ranking that prefers all things to the background knows nothing about the question."""
    scores = np.array([1.0] * 4 + [0.0] * 16)
    found = localisation(scores, range(20), [0, 1], others=[2, 3])
    assert found["auc"] > 0.9
    assert found["auc_others"] == 0.5
    assert "auc_others" not in localisation(scores, range(20), [0, 1])


def test_other_things_of_an_embedded_example_hold_no_evidence(trace):
    example = vtrace.example()
    others = other_positions(trace, example)
    assert others.image
    assert not set(others.image) & set(evidence_positions(trace).image)
    assert len(example.other_boxes) + len(set(example.evidence_boxes)) >= 6  # things on a board
    assert others.question == []
