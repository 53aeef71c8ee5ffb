"""What differs between the embedded models, in one place: how they are built, shown pictures, and trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..benchmarks.shapes.scene import Scene, World

HARDER = {"walk_read": 2.0, "exist": 1.5, "compare": 1.5, "count": 1.5, "walk3": 1.5}


@dataclass(frozen=True)
class Stage:
    """A stretch of training: the tower alone, or the whole model on packed questions."""

    name: str
    world: World
    steps: int
    images: int  # a step
    whole: bool = True
    see_weight: float = 1.0  # of the tower's read-outs in the loss
    tower_rate: float = 1.0  # share of the learning rate that the tower gets
    often: Mapping[str, float] = field(default_factory=lambda: HARDER)  # weights of tasks; of all others one


@dataclass(frozen=True)
class Recipe:
    """One embedded model."""

    name: str
    folder: str  # where it is shipped, beside this file
    opening: str  # what stands before and after the image tokens of a picture
    closing: str
    image_token: str
    readouts: int  # what a visual token can tell: colour, shape, and, if it knows where it is, row and column
    stages: tuple[Stage, ...]
    tokenizer: Callable[[], Any]
    processor: Callable[[Any], Any]
    build: Callable[[Any], Any]
    tower: Callable[[Any], nn.Module]
    draw: Callable[[list[Scene]], dict[str, Tensor]]  # pixels as the tower takes them
    see: Callable[..., tuple[Tensor, dict[str, Any]]]  # model, pixels -> image tokens, other arguments of the decoder
    in_token_order: Callable[[Tensor], Tensor]  # labels n,rows,columns,k -> n,tokens,k
    places: Callable[[int, int], tuple[Tensor, int]]  # rows, columns -> positions k,tokens from 0; the next free one
    decoder_from: str | None = None  # recipe whose decoder, after its second stage, this one starts from
    mark_image: str | None = None  # decoder argument that marks image positions
