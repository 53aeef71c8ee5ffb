"""Rows of a trainer: failures stay small, and the log counts what happened."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest

from vtrace.credit.credit import Credit, neutral_credit
from vtrace.credit.rollouts import from_trace
from vtrace.credit.trainer_rows import CreditedRows, CreditTotals


@pytest.fixture
def rollout(pinhole, trace):
    return from_trace(pinhole, trace)


def credited(lvlm, rollouts, moved=None, rows=None):
    rows = rows or CreditedRows(Credit())
    lengths = [len(rollout.response) for rollout in rollouts]
    return rows(lvlm, lengths, moved or [True] * len(rollouts), lambda some: [rollouts[k] for k in some])


def test_rows_get_the_weights_of_their_rollouts(pinhole, rollout):
    (found,) = credited(pinhole, [rollout])
    (expected,) = Credit().assign(pinhole, [rollout])
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert (found.status, found.image_share) == ("assigned", expected.image_share)


def test_rows_that_cannot_move_are_skipped(pinhole, rollout):
    found = credited(pinhole, [rollout] * 3, [False, True, False])
    assert [credit.status for credit in found] == ["skipped", "assigned", "skipped"]


def test_a_row_that_fails_keeps_its_weights_and_spares_the_others(pinhole, rollout, caplog):
    pixels = rollout.inputs["pixel_values"][:4]  # fewer than the grid says
    bad = dataclasses.replace(rollout, inputs={**rollout.inputs, "pixel_values": pixels})
    rows = CreditedRows(Credit())
    with caplog.at_level(logging.ERROR):
        found = credited(pinhole, [rollout, bad, rollout], rows=rows)
        credited(pinhole, [bad], rows=rows)
    assert [credit.status for credit in found] == ["assigned", "failed", "assigned"]
    assert found[1].weights.tolist() == [1.0] * len(rollout.response)
    assert sum("credit failed" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("weight", [0.0, float("nan"), float("inf")])
def test_weights_that_would_harm_are_refused(pinhole, rollout, monkeypatch, weight):
    harmful = neutral_credit(len(rollout.response), "assigned")
    harmful.weights[0] = weight
    monkeypatch.setattr(Credit, "assign", lambda self, lvlm, rollouts: [harmful])
    (found,) = credited(pinhole, [rollout])
    assert found.status == "failed"
    assert set(found.weights) == {1.0}


def test_metrics_count_what_was_asked_for():
    rows = [neutral_credit(2, "no answer"), neutral_credit(4, "skipped"), neutral_credit(1, "failed")]
    found = CreditTotals.of([rows[0]._replace(weights=np.array([1.5, 1.0]), status="assigned", image_share=0.5), *rows])
    metrics = found.metrics()
    assert metrics["credit/mean_weight"] == pytest.approx(5.5 / 5)
    assert metrics["credit/without_answer"] == pytest.approx(1 / 3)
    assert metrics["credit/image_share"] == 0.5
    assert [metrics[f"credit/{name}"] for name in ("assigned", "skipped", "failed")] == [0.25, 0.25, 0.25]


def test_rows_whose_numbers_overflowed_are_counted():
    metrics = CreditTotals.of([neutral_credit(2, "not finite"), neutral_credit(2, "assigned")]).metrics()
    assert (metrics["credit/not_finite"], metrics["credit/failed"]) == (0.5, 0)


def test_metrics_of_no_rows_are_neutral():
    assert CreditTotals.of([]).metrics()["credit/mean_weight"] == 1.0
