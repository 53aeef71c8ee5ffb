"""W of several responses to one prompt, computed together, equals W of each computed alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from vtrace.attribution.attention import BLOCK_BYTES
from vtrace.attribution.pairwise import PairwiseMatrix
from vtrace.attribution.siblings import SiblingMatrices
from vtrace.lvlm.layer import Layer

HEADS, GROUPS, SIZE, WIDTH = 4, 2, 8, 20
SHARED = 23
LENGTHS = (40, 31, 24)
CENTRED = [torch.arange(3, 15), torch.arange(17, 22)]


def sibling_layers(seed: int, mask: torch.Tensor | None, gain: bool) -> list[Layer]:
    """A layer of sequences whose first positions are equal, padded to the longest."""
    draw, longest = torch.Generator().manual_seed(seed), max(LENGTHS)

    def tensors(*shape: int, along: int) -> list[torch.Tensor]:
        first = torch.randn(*shape, generator=draw)
        others = [torch.randn(*shape, generator=draw) for _ in LENGTHS[1:]]
        for other in others:
            other.narrow(along, 0, SHARED).copy_(first.narrow(along, 0, SHARED))
        return [first, *others]

    projection = torch.randn(WIDTH, HEADS * SIZE, generator=draw)
    gains = tensors(longest, along=0) if gain else [None] * len(LENGTHS)
    rows = zip(
        tensors(HEADS, longest, SIZE, along=1),
        tensors(GROUPS, longest, SIZE, along=1),
        tensors(GROUPS, longest, SIZE, along=1),
        tensors(longest, WIDTH, along=0),
        gains,
        strict=True,
    )
    residual = torch.zeros(longest, WIDTH)
    return [Layer(0, q, k, v, u, projection, SIZE**-0.5, mask, residual, g) for q, k, v, u, g in rows]


def alone(layer: Layer, length: int) -> Layer:
    return Layer(
        layer.index,
        layer.query[:, :length],
        layer.key[:, :length],
        layer.value[:, :length],
        layer.update[:length],
        layer.projection,
        layer.scaling,
        None if layer.mask is None else layer.mask[:length, :length],
        layer.residual[:length],
        None if layer.gain is None else layer.gain[:length],
    )


def window(size: int) -> torch.Tensor:
    distance = torch.arange(max(LENGTHS))[:, None] - torch.arange(max(LENGTHS))
    return (distance >= 0) & (distance < size)


@pytest.mark.parametrize("mask", [None, window(9)], ids=["causal", "window"])
@pytest.mark.parametrize("gain", [False, True], ids=["plain", "norm after the projection"])
@pytest.mark.parametrize("block", [1, BLOCK_BYTES["cpu"]], ids=["small blocks", "one block"])
def test_together_equals_one_at_a_time(mask, gain, block, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", block)
    together = SiblingMatrices(LENGTHS, SHARED, CENTRED)
    each = [PairwiseMatrix(length, CENTRED) for length in LENGTHS]
    for seed in range(3):
        layers = sibling_layers(seed, mask, gain)
        together.add(layers)
        for matrix, layer, length in zip(each, layers, LENGTHS, strict=True):
            matrix.add(alone(layer, length))
    for found, matrix in zip(together.finish(), each, strict=True):
        torch.testing.assert_close(found, matrix.finish().dense(), rtol=1e-5, atol=1e-6)


def test_numbers_that_are_not_finite_stay_in_their_sequence():
    layers = sibling_layers(0, window(9), gain=False)
    spoilt = layers[0].value.clone()
    spoilt[:, SHARED:] = torch.nan
    together = SiblingMatrices(LENGTHS, SHARED, CENTRED)
    together.add([replace(layers[0], value=spoilt), *layers[1:]])
    first, *others = together.finish()
    assert first.isnan().any()
    assert all(matrix.isfinite().all() for matrix in others)
