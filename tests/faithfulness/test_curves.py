"""RISE and MAS on curves small enough to check by hand, and against the paper's formulas transcribed."""

from __future__ import annotations

import numpy as np
import pytest

from vtrace.faithfulness.curves import area, curve_of, groups_of, is_settled, mass_of, ranked, states_of


def literal(likelihoods, masses, mode):
    """The formulas of the paper, one step at a time."""
    K = len(likelihoods) - 1
    f = likelihoods
    r, aligned = [], []
    for k in range(K + 1):
        if mode == "deletion":
            r.append(min(min(max((f[j] - f[K]) / (f[0] - f[K]), 0), 1) for j in range(k + 1)))
            d = abs(r[k] - (1 - masses[k]))
            aligned.append(min(max(r[k] + d, 0), 1))
        else:
            r.append(max(min(max((f[j] - f[0]) / (f[K] - f[0]), 0), 1) for j in range(k + 1)))
            d = abs(r[k] - masses[k])
            aligned.append(min(max(r[k] - d, 0), 1))
    trapezoid = lambda y: sum((y[k] + y[k + 1]) / 2 / K for k in range(K))  # noqa: E731
    return trapezoid(r), trapezoid(aligned)


@pytest.mark.parametrize("mode", ["insertion", "deletion"])
@pytest.mark.parametrize("seed", range(8))
def test_curves_equal_the_formulas(mode, seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.random(12))[:: -1 if mode == "deletion" else 1] + rng.normal(0, 0.05, 12)
    scores = rng.normal(size=30)
    groups = groups_of(ranked(scores, range(30)), 11)
    curve = curve_of(values, mass_of(scores, groups), mode)
    masses = [sum(abs(scores[p]) for g in groups[:k] for p in g) / sum(map(abs, scores)) for k in range(12)]
    rise, mas = literal(values.tolist(), masses, mode)
    assert curve.rise == pytest.approx(rise)
    assert curve.mas == pytest.approx(mas)
    assert not curve.degenerate


def test_groups_are_as_equal_as_can_be_and_the_first_are_larger():
    assert [len(g) for g in groups_of(range(50), 20)] == [3] * 10 + [2] * 10
    assert [len(g) for g in groups_of(range(7), 20)] == [1] * 7
    assert groups_of([], 20) == []


def test_ranking_is_by_size_and_ties_keep_the_order_of_the_sequence():
    assert ranked(np.array([0.0, 2.0, -3.0, 2.0, 0.0]), [0, 1, 2, 3, 4]) == [2, 1, 3, 0, 4]


def test_insertion_and_deletion_share_their_ends():
    groups = [[1, 2], [3], [4]]
    deleted, inserted = states_of(groups, "deletion"), states_of(groups, "insertion")
    assert deleted[0] == inserted[-1] == frozenset()
    assert deleted[-1] == inserted[0] == {1, 2, 3, 4}
    assert inserted[1] == {3, 4}


def test_rise_sees_only_the_ranking_and_mas_the_sizes_too():
    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    values = [1.0, 0.5, 0.3, 0.2, 0.1, 0.05]
    groups = groups_of(ranked(scores, range(5)))
    one, other = (curve_of(values, mass_of(s, groups), "deletion") for s in (scores, scores**6))
    assert one.rise == other.rise
    assert one.mas != other.mas


@pytest.mark.parametrize("mode", ["insertion", "deletion"])
def test_a_curve_that_does_not_fall_is_a_ramp_and_says_so(mode):
    ends = (0.2, 0.9) if mode == "deletion" else (0.9, 0.2)  # perturbing everything helps
    curve = curve_of([ends[0], 0.5, ends[1]], np.array([0, 0.5, 1]), mode)
    assert curve.degenerate
    assert curve.rise == 0.5


@pytest.mark.parametrize("mode", ["insertion", "deletion"])
def test_what_comes_after_a_settled_step_does_not_matter(mode):
    rng = np.random.default_rng(0)
    settled = 0
    for _ in range(200):
        values = np.sort(rng.random(12))[:: -1 if mode == "deletion" else 1] + rng.normal(0, 0.2, 12)
        mass = np.linspace(0, 1, 12)
        for k in range(1, 12):
            if is_settled([*values[:k], values[-1]], mode):
                settled += 1
                assert curve_of([*values[:k], *[values[-1]] * (12 - k)], mass, mode) == curve_of(values, mass, mode)
    assert settled > 100
    assert not is_settled([0.1, 0.5, 0.9] if mode == "insertion" else [0.9, 0.5, 0.1], mode)


def test_scores_of_zero_have_a_straight_line_for_a_mass_and_say_so():
    groups = groups_of(ranked(np.zeros(4), range(4)))
    assert groups == [[0], [1], [2], [3]]
    curve = curve_of([0.1, 0.2, 0.3, 0.8, 0.9], mass_of(np.zeros(4), groups), "insertion")
    assert curve.unranked
    assert curve.mass == (0, 0.25, 0.5, 0.75, 1)
    assert not curve_of([0.1, 0.9], mass_of(np.ones(1), [[0]]), "insertion").unranked


def test_nothing_to_perturb_is_no_number_and_flagged():
    curve = curve_of([0.9], mass_of(np.ones(3), []), "deletion")
    assert np.isnan(curve.rise)
    assert (curve.degenerate, curve.unranked) == (True, True)


def test_an_oracle_beats_chance_beats_its_reverse():
    rng = np.random.default_rng(0)
    worth = rng.random(40)

    def rise(order, mode):
        groups = groups_of(order)
        lost = [1 - worth[list(s)].sum() / worth.sum() for s in states_of(groups, mode)]
        return curve_of(lost, mass_of(worth, groups), mode).rise

    best = ranked(worth, range(40))
    chance = rng.permutation(40).tolist()
    assert rise(best, "deletion") < rise(chance, "deletion") < rise(best[::-1], "deletion")
    assert rise(best, "insertion") > rise(chance, "insertion") > rise(best[::-1], "insertion")


def test_area_of_a_line_is_a_half():
    assert area(np.linspace(0, 1, 9)) == pytest.approx(0.5)
