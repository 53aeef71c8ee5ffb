"""What differs between the embedded models: architecture, picture input and training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import PreTrainedModel, ProcessorMixin, Qwen2Tokenizer

from ..benchmarks.shapes.scene import Scene, World

HARDER = {"walk_read": 2.0, "exist": 1.5, "compare": 1.5, "count": 1.5, "walk3": 1.5}


class Vision(NamedTuple):
    """What the vision tower gives the decoder."""

    tokens: Tensor  # n,d: image tokens of all pictures
    others: dict[str, Any]  # further arguments of the decoder


class ImagePositions(NamedTuple):
    """Positions of the image tokens of a picture."""

    positions: Tensor  # axes,tokens; counted from 0
    next: int  # the first free position after the picture


@dataclass(frozen=True)
class Stage:
    """One stage of training: the vision tower alone, or the whole model on packed questions."""

    name: str
    world: World
    steps: int
    images: int  # per step
    whole: bool = True
    see_weight: float = 1.0  # of the vision read-outs in the loss
    tower_rate: float = 1.0  # learning rate of the tower, as a share of that of the decoder
    often: Mapping[str, float] = field(default_factory=lambda: HARDER)  # weights of tasks; 1 for all others


@dataclass(frozen=True)
class Recipe:
    """One embedded model."""

    name: str
    folder: str  # of the shipped checkpoint, next to this file
    opening: str  # text before and after the image tokens of a picture
    closing: str
    image_token: str
    readouts: int  # what is read out from a visual token: colour, shape, and, if it knows its position, row and column
    stages: tuple[Stage, ...]
    tokenizer: Callable[[], Qwen2Tokenizer]
    processor: Callable[[Qwen2Tokenizer], ProcessorMixin]
    build: Callable[[Qwen2Tokenizer], PreTrainedModel]
    tower: Callable[[PreTrainedModel], nn.Module]
    draw: Callable[[Sequence[Scene]], dict[str, Tensor]]  # pixels as the tower takes them
    see: Callable[[PreTrainedModel, Mapping[str, Tensor]], Vision]  # runs the tower on such pixels
    in_token_order: Callable[[Tensor], Tensor]  # labels n,rows,columns,k -> n,tokens,k
    image_positions: Callable[[int, int], ImagePositions]  # of a picture of rows x columns tokens
    decoder_from: str | None = None  # the recipe whose decoder, after its second stage, this one starts from
    mark_image: str | None = None  # decoder argument that marks image positions
