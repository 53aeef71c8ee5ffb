"""The mixing matrix of Mamba-2 equals the slow, literal recurrence run with unit values."""

from __future__ import annotations

import pytest
import torch

from vtrace.lvlm.state_space import StateSpace, step_sizes

GROUPS, HEADS, SIZE = 2, 6, 16


def random_scan(length: int, seed: int = 0) -> tuple[StateSpace, torch.Tensor]:
    """The scan of random inputs, and its matrix by updating a state position by position; in float64."""
    rng = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, GROUPS, length, SIZE, generator=rng)
    step, skip = torch.rand(HEADS, length, generator=rng), torch.randn(HEADS, generator=rng)
    decay = -step * torch.arange(1, HEADS + 1)[:, None]
    c, b = (x.double().repeat_interleave(HEADS // GROUPS, dim=0) for x in (query, key))
    state, rows = torch.zeros(HEADS, SIZE, length, dtype=torch.double), []
    for j in range(length):
        unit = torch.eye(length, dtype=torch.double)[j]
        state = state * decay[:, j].double().exp()[:, None, None]
        state = state + step[:, j, None, None] * b[:, j, :, None] * unit
        rows.append((c[:, j, None] @ state)[:, 0] + skip[:, None] * unit)
    return StateSpace(query, key, decay, step, skip), torch.stack(rows, dim=1).float()


@pytest.mark.parametrize("length", [1, 5, 300])
def test_all_rows_at_once(length):
    scan, expected = random_scan(length)
    torch.testing.assert_close(scan.reader()(torch.arange(length)), expected, rtol=1e-4, atol=1e-6)


def test_blocks_of_receivers():
    scan, expected = random_scan(200)
    read = scan.reader()
    for receivers in (torch.arange(100, 160), torch.tensor([0, 3, 130, 199]), torch.tensor([5])):
        last = int(receivers[-1])
        torch.testing.assert_close(read(receivers), expected[:, receivers, : last + 1], rtol=1e-4, atol=1e-6)


def test_sequences_whose_heads_follow_each_other():
    (one, first), (two, second) = random_scan(140, seed=1), random_scan(140, seed=2)
    found = one.stacked([two]).reader()(torch.arange(140))
    torch.testing.assert_close(found, torch.cat([first, second]), rtol=1e-4, atol=1e-6)


def test_decays_of_a_long_sequence_stay_exact():
    """Sums of decays grow far beyond what float32 can tell apart; the difference of two positions does not."""
    length = 20_000
    even = torch.ones(1, length)
    scan = StateSpace(torch.ones(1, length, 1), torch.ones(1, length, 1), -7.3 * even, even, torch.zeros(1))
    (row,) = scan.reader()(torch.tensor([length - 1]))[0]
    torch.testing.assert_close(row[-3:].log(), torch.tensor([-14.6, -7.3, 0.0]), rtol=1e-5, atol=1e-5)


def test_steps_are_those_of_the_scan():
    raw, bias = torch.tensor([[[-9.0, 0.5]]]), torch.tensor([1.0, -1.0])
    found = step_sizes(raw, dict(dt_bias=bias, dt_softplus=True, dt_limit=(0.01, 0.4)))
    torch.testing.assert_close(found, torch.tensor([[[0.01, 0.4]]]))
    torch.testing.assert_close(step_sizes(raw.abs(), {}), raw.abs())
