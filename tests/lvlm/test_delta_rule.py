"""The mixing matrix of the gated delta rule equals the slow, literal rule of transformers run with unit values."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

from vtrace.lvlm.delta_rule import CHUNK, GatedDeltaRule, unit_length

HEADS, SIZE = 3, 16


def random_rule(length: int, seed: int = 0) -> tuple[GatedDeltaRule, torch.Tensor]:
    """The rule for random inputs, and its matrix by running the literal rule."""
    rng = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, length, HEADS, SIZE, generator=rng)
    decay, strength = -0.3 * torch.rand(1, length, HEADS, generator=rng), torch.rand(1, length, HEADS, generator=rng)
    units = torch.eye(length)[None, :, None].expand(1, length, HEADS, length)
    literal, _ = torch_recurrent_gated_delta_rule(
        query, key, units, decay, strength, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=True
    )
    rule = GatedDeltaRule(
        unit_length(query[0]).transpose(0, 1) * SIZE**-0.5,
        unit_length(key[0]).transpose(0, 1),
        decay[0].T,
        strength[0].T,
    )
    return rule, literal[0].transpose(0, 1)


@pytest.mark.parametrize("length", [1, 5, CHUNK, CHUNK + 1, 2 * CHUNK + 44])
def test_all_rows_at_once(length):
    rule, expected = random_rule(length)
    torch.testing.assert_close(rule.reader()(torch.arange(length)), expected, rtol=1e-4, atol=1e-6)


def test_blocks_of_receivers_in_any_chunk():
    rule, expected = random_rule(2 * CHUNK + 44)
    read = rule.reader()
    for receivers in (torch.arange(100, 160), torch.tensor([0, 3, 130, 131, 299]), torch.tensor([5])):
        last = int(receivers[-1])
        torch.testing.assert_close(read(receivers), expected[:, receivers, : last + 1], rtol=1e-4, atol=1e-6)


def test_sequences_whose_heads_follow_each_other():
    (one, first), (two, second) = random_rule(140, seed=1), random_rule(140, seed=2)
    found = one.stacked([two]).reader()(torch.arange(140))
    torch.testing.assert_close(found, torch.cat([first, second]), rtol=1e-4, atol=1e-6)
