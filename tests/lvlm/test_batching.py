"""Batches of several prompts: rows keep their own masks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from vtrace.lvlm.batching import join
from vtrace.lvlm.families.text import TEXT


def part(rows: int, length: int, mask: torch.Tensor | None):
    masks = {"sliding_attention": None if mask is None else mask.expand(rows, 1, -1, -1)}
    return {"inputs_embeds": torch.zeros(rows, length, 2), "attention_mask": masks}


@pytest.mark.parametrize("as_numbers", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_short_sequence_without_a_mask_joins_a_long_one_with_a_sliding_window(order, as_numbers):
    window = torch.ones(5, 5, dtype=torch.bool).tril().triu(-2)
    mask = torch.zeros(5, 5).masked_fill(~window, torch.finfo(torch.float32).min) if as_numbers else window
    parts = [part(2, 3, None), part(1, 5, mask)]
    joined = join(SimpleNamespace(family=TEXT), [parts[k] for k in order])["attention_mask"]["sliding_attention"]
    seen = joined == 0 if as_numbers else joined
    short = [row for k in order for row in ((True, True) if k == 0 else (False,))]
    assert seen.shape == (3, 1, 5, 5)
    for row, is_short in zip(seen[:, 0], short, strict=True):
        if is_short:
            assert torch.equal(row[:3, :3], torch.ones(3, 3, dtype=torch.bool).tril())
            assert not row[:3, 3:].any()
        else:
            assert torch.equal(row, window)
