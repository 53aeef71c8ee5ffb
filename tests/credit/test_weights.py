"""Rules from scores to weights: the paper's numbers, ties, unassigned tokens, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from vtrace.credit.weights import RULES, UNASSIGNED, weights
from vtrace.errors import InputError

nan = UNASSIGNED


def literal_top(scores, share, boost):
    """The paper's sentence: the top 40 % of the tokens get 1.5, all others keep 1.0."""
    known = [k for k, score in enumerate(scores) if not np.isnan(score)]
    best = sorted(known, key=lambda k: -scores[k])[: max(1, round(share * len(known)))]
    return [boost if k in best else 1.0 for k in range(len(scores))]


@pytest.mark.parametrize("seed", range(8))
def test_the_papers_rule(seed):
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=draw.integers(1, 60))
    scores[draw.random(len(scores)) < 0.2] = nan
    share, boost = draw.uniform(0.05, 1), draw.uniform(1, 3)
    if np.isnan(scores).all():
        return
    assert weights(scores, "top", share, boost).tolist() == pytest.approx(literal_top(scores, share, boost))


def test_by_default_the_top_40_percent_get_1_5():
    assert weights(np.arange(10.0)).tolist() == [1.0] * 6 + [1.5] * 4


def test_unassigned_is_not_zero():
    assert weights(np.array([0.0, nan, 2.0, 1.0, nan])).tolist() == [1.0, 1.0, 1.5, 1.0, 1.0]
    assert weights(np.array([nan, nan])).tolist() == [1.0, 1.0]
    assert weights(np.array([])).tolist() == []


def test_tied_scores_get_the_same_weight_and_the_mean_stays():
    assert weights(np.ones(10)).tolist() == pytest.approx([1.2] * 10)
    found = weights(np.array([3.0, 1, 1, 1, 0]))  # 2 of 5: the first, and a third of the next three
    assert found.tolist() == pytest.approx([1.5, 1 + 0.5 / 3, 1 + 0.5 / 3, 1 + 0.5 / 3, 1.0])


def test_proportional_weights_start_at_one():
    assert weights(np.array([0.0, 1, 2, 4, -3, nan]), "proportional").tolist() == [1.0, 1.125, 1.25, 1.5, 1.0, 1.0]
    assert weights(np.zeros(3), "proportional").tolist() == [1.0, 1.0, 1.0]


def test_mean_one_keeps_the_size_of_the_step():
    found = weights(np.array([5.0, 4, 3, 2, 1, nan, nan]), "mean-one")
    assert found.mean() == pytest.approx(1)
    assert found[0] / found[4] == pytest.approx(1.5)
    assert found[5:].tolist() == [1.0, 1.0], "unassigned tokens keep the weight 1"


@pytest.mark.parametrize("rule", RULES)
def test_no_weight_is_zero(rule):
    draw = np.random.default_rng(0)
    for _ in range(50):
        found = weights(draw.normal(size=20) * (draw.random(20) > 0.3), rule)
        assert (found > 0).all()
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "best"}, "unknown rule 'best'; use one of: top, proportional, mean-one"),
        ({"share": 0}, "share is 0"),
        ({"share": 1.5}, "share is 1.5"),
        ({"boost": 0.5}, "boost is 0.5"),
        ({"boost": float("nan")}, "boost is nan"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        weights(np.ones(3), **options)


def test_infinite_scores_are_refused():
    with pytest.raises(InputError, match="infinite"):
        weights(np.array([1.0, float("inf")]))
