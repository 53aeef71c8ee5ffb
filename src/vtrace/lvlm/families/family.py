"""What has to be known about a model family: data, and two or three functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ...types import Box

Arguments = dict[str, Any]  # keyword arguments of a text decoder, as its model passes them
ProcessorOutput = dict[str, Any]  # tensors by name, as the processor returns them


class Size(NamedTuple):
    """Of a picture, in pixels."""

    width: int
    height: int


class Cell(NamedTuple):
    """What one image token shows: a cell of the token grid of one view, and its box on the original picture."""

    view: int
    row: int
    column: int
    box: Box


WHOLE = Box(0.0, 0.0, 1.0, 1.0)


def grid(rows: int, columns: int, size: Size, view: int = 0, shown: Box = WHOLE) -> list[Cell]:
    """Cells of a token grid, row-major. `shown` is where the picture lies on the grid, in shares of its sides.

    A picture that was resized to the grid as a whole fills it; one with borders fills less, a cropped one more.
    """
    left, top, right, bottom = shown
    xs = [_clip((c / columns - left) / (right - left)) * size[0] for c in range(columns + 1)]
    ys = [_clip((r / rows - top) / (bottom - top)) * size[1] for r in range(rows + 1)]
    return [Cell(view, r, c, Box(xs[c], ys[r], xs[c + 1], ys[r + 1])) for r in range(rows) for c in range(columns)]


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def by_tile(cells: list[Cell], side: int) -> list[Cell]:
    """Cells in the order of square tiles, row-major, and row-major inside each: a stable sort does it."""
    return sorted(cells, key=lambda cell: (cell.row // side, cell.column // side))


def squares(chosen: Tensor, side: int, pixels: Tensor) -> Tensor:
    """Tokens of square tiles, side² each in a row, as a mask of the tiles' pixels: n,1,height,width."""
    mask = chosen.view(-1, 1, side, side)
    return mask.repeat_interleave(pixels.shape[-2] // side, 2).repeat_interleave(pixels.shape[-1] // side, 3)


def repeat_rows(arguments: Arguments, copies: int) -> Arguments:
    """A batch of copies. The batch is the first axis, but the second one of multi-axis positions."""

    def repeated(name: str, value: Any) -> Any:
        if isinstance(value, dict):  # a mask for each kind of layer
            return {key: repeated(key, part) for key, part in value.items()}
        if not isinstance(value, Tensor) or value.ndim < 2:
            return value
        if name == "position_ids" and value.ndim == 3:
            return value.expand(value.shape[0], copies, -1)
        return value.expand(copies, *value.shape[1:])

    return {name: repeated(name, value) for name, value in arguments.items()}


def no_extra_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked.new_zeros(0)


@dataclass(frozen=True)
class Family:
    """A family of checkpoints that share one architecture in `transformers`."""

    name: str
    model_types: tuple[str, ...]  # `config.model_type`
    status: str  # what has been seen to work, in words
    decoder: Callable[[Any], Any]  # the text decoder inside the model
    cells: Callable[[dict[str, Any], Any, Any, Sequence[Size]], list[list[Cell | None]]]
    """Processor output, processor, config, sizes of the pictures -> what each image token of each picture shows.

    None stands for a token that shows nothing, such as the end of a row."""
    pixel_mask: Callable[[dict[str, Any], Tensor, Any], Tensor]
    """Processor output, chosen image tokens that show something (n), config -> their processed pixels, as a mask."""
    fits: Callable[[Any], bool] = lambda config: True  # tells families of one model type apart
    branch_norm: str = ""  # norm of a layer between attention and residual, where there is one
    extras: Callable[[Arguments], list[Tensor]] = lambda arguments: []  # what else reaches image positions, row by row
    with_extras: Callable[[Arguments, list[Tensor]], Arguments] = lambda arguments, rows: arguments
    extra_rows: Callable[[Arguments, Tensor], Tensor] = no_extra_rows  # which of them belong to masked positions (B,T)
    chat_template: str = ""  # where checkpoints have none
    response_ones: tuple[str, ...] = ("attention_mask",)  # inputs that are 1 for tokens of the response, and not 0
    tile: Callable[[Any], int] | None = None  # config -> tokens in a row that are encoded apart from all others, if so
    patch_embed: Callable[[Any], Any] | None = None  # module that embeds processed pixels patch by patch, if it can
