"""What has to be known about a model family: data, and two or three functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..types import Box

Arguments = dict[str, Any]  # keyword arguments of a text decoder, as its model passes them


@dataclass(frozen=True)
class Family:
    """A family of checkpoints that share one architecture in `transformers`."""

    name: str
    model_types: tuple[str, ...]  # `config.model_type`
    status: str  # what has been seen to work, in words
    decoder: Callable[[Any], Any]  # the text decoder inside the model
    grids: Callable[[Any, Any], list[tuple[int, int]]]  # processor output, config -> token rows and columns per image
    repeat: Callable[[Arguments, int], Arguments]  # a batch of n copies
    extras: Callable[[Arguments], list[Tensor]]  # what reaches image positions besides embeddings, row by row
    with_extras: Callable[[Arguments, list[Tensor]], Arguments]
    extra_rows: Callable[[Arguments, Tensor], Tensor]  # which of their rows belong to the masked positions (B,T)
    patch_embed: Callable[[Any], Any] | None  # module that embeds processed pixels patch by patch, where there is one
    mix_pixels: Callable[[Tensor, Tensor, Tensor, Any], Tensor]  # processed pixels, others for the chosen image tokens


def grid_boxes(rows: int, columns: int, size: tuple[int, int]) -> list[Box]:
    """Pixel boxes of a token grid, row-major, over a picture that was resized to the grid as a whole."""
    width, height = size
    return [
        (c * width / columns, r * height / rows, (c + 1) * width / columns, (r + 1) * height / rows)
        for r in range(rows)
        for c in range(columns)
    ]
