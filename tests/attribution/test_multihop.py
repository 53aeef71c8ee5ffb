"""Stage 2: path sums equal the inverse, rank exactly at any size, and never overflow."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from oracles import algorithm
from vtrace.attribution.multihop import edge_scale, log_inflow, log_outflow, log_scores
from vtrace.attribution.pairwise import EPSILON
from vtrace.attribution.triangle import BLOCK, Triangle


def random_pairwise(length, density=0.4, seed=0):
    torch.manual_seed(seed)
    return (torch.rand(length, length) * (torch.rand(length, length) < density)).triu(1)


def column(length, positions):
    receivers = torch.zeros(length, 1)
    receivers[list(positions)] = 1
    return receivers


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize("length", [5, 60, BLOCK, BLOCK + 1, 300])
def test_scores_equal_the_pseudocode(length, gamma):
    pairwise = random_pairwise(length, density=4 / length)
    receivers = [length - 4, length - 2, length - 1]
    _, expected = algorithm.scores(pairwise, receivers, gamma)
    found = log_scores(Triangle.of(pairwise), column(length, receivers), gamma)[:, 0].exp()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-300)


def test_inflow_and_outflow_are_sums_of_the_closed_form():
    pairwise = random_pairwise(200, density=0.02)
    R, _ = algorithm.scores(pairwise, [199], 0.8)
    powers, term = torch.zeros_like(R), torch.eye(200, dtype=torch.float64)
    hat = 0.8 * pairwise.double() / (pairwise.max().double() + EPSILON)
    for _ in range(199):
        term = term @ hat
        powers += term
    torch.testing.assert_close(R, powers, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(log_inflow(Triangle.of(pairwise), 0.8).exp(), powers.sum(0), rtol=1e-9, atol=1e-12)
    chosen = torch.zeros(200, 2)
    chosen[[150, 199], 0], chosen[90, 1] = 1, 1
    torch.testing.assert_close(
        log_outflow(Triangle.of(pairwise), chosen, 0.8).exp(), powers @ chosen.double(), rtol=1e-9, atol=1e-12
    )


def test_scores_are_zero_from_the_first_receiver_on():
    found = log_scores(Triangle.of(random_pairwise(50)), column(50, [20, 40]))[:, 0]
    assert (found[20:] == -math.inf).all()
    assert (found[:20] > -math.inf).all()


def test_without_multihop_the_score_is_the_direct_edge():
    pairwise = random_pairwise(30)
    found = log_scores(Triangle.of(pairwise), column(30, [29]), multihop=False)[:, 0].exp()
    torch.testing.assert_close(found[:29], (pairwise[:29, 29] / pairwise.max()).double(), rtol=1e-6, atol=1e-12)


def test_many_targets_at_once_equal_one_at_a_time():
    pairwise = random_pairwise(280, density=0.05)
    together = log_scores(Triangle.of(pairwise), torch.eye(280)[:, 200:])
    for k in (0, 17, 79):
        torch.testing.assert_close(
            together[:, k], log_scores(Triangle.of(pairwise), column(280, [200 + k]))[:, 0], rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_ranking_is_exact_where_path_sums_grow_beyond_1e80(spread):
    length = 4096
    rng = np.random.default_rng(3)
    dense = np.triu(0.05 * (1 + spread * rng.random((length, length))), 1).astype(np.float32)
    dense[0, 1] = 1.0  # fixes the normalisation, so that edges stay 0.05
    expected = algorithm.extended_precision_scores(dense, [length - 1])
    found = log_scores(Triangle.of(torch.from_numpy(dense)), column(length, [length - 1]))[:, 0].numpy()
    assert not np.isnan(found).any()
    reachable = expected > 0
    assert float(np.log10(expected[reachable].max())) > 80
    np.testing.assert_allclose(found[reachable], np.log(expected[reachable]).astype(float), rtol=0, atol=1e-9)
    if spread:  # with constant edges the scores are equal by symmetry, and only rounding would be ranked
        assert (np.argsort(-found, kind="stable") == np.argsort(-expected, kind="stable")).all()


def test_thirty_two_thousand_tokens():
    length = 32_768
    pairwise = Triangle.zeros(length)
    for rows, edges in pairwise.blocks():
        edges += 0.05
        edges[:, rows].tril_(-1)
        if not rows.start:
            edges[1, 0] = 1.0
    found = log_scores(pairwise, column(length, [length - 1]))[:-1, 0]
    assert torch.isfinite(found).all()
    growth = (length - 2) * math.log(1.05)  # e(1 + e)^(T - 2) for a path over everything
    assert abs(float(found[2:].mean()) - growth) < 8


def test_a_long_chain_of_weak_edges_does_not_vanish():
    length = 500
    pairwise = torch.zeros(length, length)
    for r in range(length - 1):
        pairwise[r, r + 1] = 1e-5
    pairwise[0, 1] = 1.0
    found = log_outflow(Triangle.of(pairwise), column(length, [length - 1]))[:, 0]
    expected = torch.arange(length - 1, 0, -1, dtype=torch.float64) * math.log(1e-5)
    torch.testing.assert_close(found[1:-1], expected[1:], rtol=1e-6, atol=1e-3)


def test_an_enormous_gamma_does_not_overflow():
    pairwise = random_pairwise(300)
    found = log_scores(Triangle.of(pairwise), column(300, [299]), gamma=1e6)[:, 0].numpy()
    expected = algorithm.extended_precision_scores(pairwise.numpy(), [299], gamma=1e6)
    assert float(np.log10(expected.max())) > 800
    assert ((expected > 0) == np.isfinite(found)).all()
    reachable = expected > 0
    np.testing.assert_allclose(found[reachable], np.log(expected[reachable]).astype(float), rtol=1e-9)


def test_a_matrix_of_zeros_gives_zero_scores():
    assert (log_scores(Triangle.of(torch.zeros(10, 10)), column(10, [9])) == -math.inf).all()


@pytest.mark.parametrize("hops", [1, 2, 5, 40])
def test_paths_up_to_a_length_are_powers_summed(hops):
    torch.manual_seed(hops)
    pairwise = torch.rand(30, 30).triu(1)
    receivers = torch.zeros(30, 1)
    receivers[[20, 25]] = 1
    edges = pairwise.double() * edge_scale(Triangle.of(pairwise), 0.7)
    total = sum(torch.linalg.matrix_power(edges, k) for k in range(1, hops + 1))
    expected = (1 + total.sum(0)) * total[:, [20, 25]].sum(1)
    found = log_scores(Triangle.of(pairwise), receivers, 0.7, hops=hops)[:, 0].exp()
    torch.testing.assert_close(found[:20], expected[:20], rtol=1e-9, atol=0)
    if hops == 40:  # longer than any path there is
        torch.testing.assert_close(
            found, log_scores(Triangle.of(pairwise), receivers, 0.7)[:, 0].exp(), rtol=1e-9, atol=0
        )
