"""Stage 3: Shapley shares, the image scale, and the paper's boundary conditions."""

from __future__ import annotations

import pytest
import torch

from oracles import algorithm
from vtrace.attribution.calibrate import Likelihoods, calibrate


def test_scale_equals_the_pseudocode():
    u = torch.rand(20, dtype=torch.float64)
    image, text = list(range(3, 9)), list(range(10, 18))
    found = calibrate(Likelihoods(-2.0, -9.0, -6.0, -30.0), float(u[image].sum()), float(u[text].sum()))
    assert found.applied
    assert found.scale == pytest.approx(float(algorithm.image_scale(u, image, text, 7.0, 4.0, 28.0)), rel=1e-9)
    assert found.image_contribution + found.text_contribution == pytest.approx(found.joint_damage)


def test_calibrated_sums_have_the_ratio_of_the_contributions():
    found = calibrate(Likelihoods(-1.0, -6.0, -3.0, -20.0), 0.7, 2.1)
    assert found.scale * 0.7 / 2.1 == pytest.approx(found.image_contribution / found.text_contribution)
    assert found.image_share == pytest.approx(found.scale * 0.7 / (found.scale * 0.7 + 2.1))


@pytest.mark.parametrize(
    ("likelihoods", "sums", "word"),
    [
        (Likelihoods(-5.0, -4.0, -9.0, -9.0), (1.0, 1.0), "the image does not raise"),
        (Likelihoods(-5.0, -9.0, -4.0, -9.0), (1.0, 1.0), "the question does not raise"),
        (Likelihoods(-5.0, -7.0, -7.0, -9.0), (0.0, 1.0), "no image position"),
        (Likelihoods(-5.0, -7.0, -7.0, -9.0), (1.0, 0.0), "no question position"),
        (Likelihoods(-5.0, -5.0, -5.0, -5.0), (1.0, 1.0), "the image does not raise"),
        (Likelihoods(-5.0, float("-inf"), -7.0, -9.0), (1.0, 1.0), "no finite likelihood"),
    ],
)
def test_outside_the_boundary_conditions_scores_stay_and_the_status_says_why(likelihoods, sums, word):
    found = calibrate(likelihoods, *sums)
    assert found.scale == 1.0
    assert found.status.startswith("not applied")
    assert word in found.status


def test_switched_off():
    assert calibrate(None, 1.0, 1.0).status == "off"
