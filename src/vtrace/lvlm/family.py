"""What has to be known about a model family: data, and two or three functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..types import Box

Arguments = dict[str, Any]  # keyword arguments of a text decoder, as its model passes them
Size = tuple[int, int]  # width, height
Cell = tuple[int, int, int, Box]  # view, row, column, and the box on the original picture


def grid(rows: int, columns: int, size: Size, view: int = 0) -> list[Cell]:
    """Cells of a token grid, row-major, over a picture that was resized to the grid as a whole."""
    width, height = size
    return [
        (view, r, c, (c * width / columns, r * height / rows, (c + 1) * width / columns, (r + 1) * height / rows))
        for r in range(rows)
        for c in range(columns)
    ]


def repeat_rows(arguments: Arguments, copies: int) -> Arguments:
    """A batch of copies, where every tensor has the batch as its first axis."""
    return {
        name: value.expand(copies, *value.shape[1:]) if isinstance(value, Tensor) and value.ndim > 1 else value
        for name, value in arguments.items()
    }


def no_extra_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked.new_zeros(0)


@dataclass(frozen=True)
class Family:
    """A family of checkpoints that share one architecture in `transformers`."""

    name: str
    model_types: tuple[str, ...]  # `config.model_type`
    status: str  # what has been seen to work, in words
    decoder: Callable[[Any], Any]  # the text decoder inside the model
    cells: Callable[[dict[str, Any], Any, Any, Sequence[Size]], list[list[Cell]]]
    """Processor output, processor, config, sizes of the pictures -> what each image token of each picture shows."""
    mix_pixels: Callable[[Tensor, Tensor, Tensor, Any], Tensor]  # processed pixels, others for the chosen image tokens
    repeat: Callable[[Arguments, int], Arguments] = repeat_rows  # a batch of n copies
    extras: Callable[[Arguments], list[Tensor]] = lambda arguments: []  # what else reaches image positions, row by row
    with_extras: Callable[[Arguments, list[Tensor]], Arguments] = lambda arguments, rows: arguments
    extra_rows: Callable[[Arguments, Tensor], Tensor] = no_extra_rows  # which of them belong to masked positions (B,T)
    patch_embed: Callable[[Any], Any] | None = None  # module that embeds processed pixels patch by patch, if it can
