"""What tests of methods share."""

from __future__ import annotations

import torch

from vtrace.attention import attention_rows
from vtrace.methods import METHODS
from vtrace.targets import find_target


def run(name, work, spec="response", **options):
    return METHODS[name].run(work, find_target(work.trace, spec), **options)


def close(found, expected, rtol=1e-4, atol=1e-5):
    found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol * float(expected.abs().max()))


def maps_of(layer) -> torch.Tensor:
    """All weights of a layer at once."""
    (block,) = attention_rows(layer.query, layer.key, layer.scaling, layer.mask)
    return block[1].clone()
