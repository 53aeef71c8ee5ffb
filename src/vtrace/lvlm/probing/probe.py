"""Find out where the image tokens of a model look, by painting patterns into pictures and reading its features.

Every pattern is painted twice, with its inks exchanged, and the change of the features at image positions, where they
enter the decoder, is what tokens answer. Half of a pattern is always of either ink, so what reaches a token from
everywhere at once, through attention in the vision tower, mostly cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from PIL import Image
from torch import Tensor
from transformers import ProcessorMixin

from ...errors import ModelError
from ...types import Box
from ..families.family import Cell, ModelConfig, PictureCells, ProcessorOutput, Size
from ..processor import processed, render_chat
from ..seam import Seam
from .patterns import Patterns
from .placing import Answers, Grids, Placed

INKS = (((235, 200, 40), (30, 50, 190)), ((200, 40, 60), (60, 210, 200)))  # the second if the first finds too little
GREY = 128
CONFIDENT = 0.35  # median over tokens, below which nothing is believed
SURE = 0.5  # from which the first inks suffice
COVERED = 0.9  # share of tokens that have to stand on a cell of their own
SILENT = 1e-6  # of the median: a token that answers less shows nothing, such as the end of a row
_LEVELS = 8  # stripes are never narrower than 1/256 of a side


class _Heard(NamedTuple):
    """What tokens answered along one axis: products of answers, and their sum of squares."""

    products: Float64[np.ndarray, "tokens patterns patterns"]
    strength: Float64[np.ndarray, " tokens"]


class Probe:
    """Finds the cells of image tokens for pictures of any sizes. Each combination of sizes is probed once."""

    def __init__(self, seam: Seam, processor: ProcessorMixin, token: int):
        self._seam, self._processor, self._token = seam, processor, token
        self._known: dict[tuple[Size, ...], list[PictureCells]] = {}

    def cells(
        self, inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
    ) -> list[PictureCells]:
        """A family's function: what each image token of each picture shows, with a confidence."""
        key = tuple(Size(*size) for size in sizes)
        if key not in self._known:
            owner = self._owners(key)
            self._known[key] = [self._picture(key, number, owner == number) for number in range(len(key))]
        return self._known[key]

    def features(self, pictures: Sequence[Image.Image]) -> Float64[Tensor, "tokens width"]:
        """What enters the decoder at image positions."""
        inputs = prompt_inputs(self._processor, pictures, self._seam.model)
        shown = inputs["input_ids"][0] == self._token
        return self._seam.encode(inputs)["inputs_embeds"][0, shown].detach().cpu().double()

    def _owners(self, sizes: tuple[Size, ...]) -> np.ndarray:
        """The picture that each token changes most with."""
        plain = [Image.new("RGB", size, (GREY,) * 3) for size in sizes]
        if len(sizes) == 1:
            return np.zeros(len(self.features(plain)), dtype=int)
        light, dark = INKS[0]
        changes = []
        for number, size in enumerate(sizes):
            ends = [Image.new("RGB", size, ink) for ink in (light, dark)]
            one, other = (self.features([*plain[:number], end, *plain[number + 1 :]]) for end in ends)
            changes.append((one - other).norm(dim=-1))
        return torch.stack(changes).argmax(0).numpy()

    def _picture(self, sizes: tuple[Size, ...], number: int, own: np.ndarray) -> PictureCells:
        """The tokens of one picture, while the others are grey."""
        size, count = sizes[number], int(own.sum())
        levels = _levels(size, count)
        patterns, most = Patterns.of_levels(levels), min(count, 2**levels)
        heard: list[list[_Heard]] = []
        for inks in INKS:
            heard.append([self._ask(sizes, number, own, patterns, axis, inks) for axis in (0, 1)])
            loud = np.sum([axis.strength for ink in heard for axis in ink], axis=0)
            live = loud > SILENT * np.median(loud)
            if not live.any():
                raise _unchanged(count, size)
            down, across = (
                Answers(np.mean([ink[axis].products[live] for ink in heard], axis=0), patterns) for axis in (0, 1)
            )
            placed = Grids(down, across, most).place()
            if _believed(placed, SURE):
                break
        if not _believed(placed, CONFIDENT):
            raise _refusal(placed, size)
        found = iter(placed)
        return [_cell(next(found), size) if alive else None for alive in live]

    def _ask(
        self, sizes: tuple[Size, ...], number: int, own: np.ndarray, patterns: Patterns, axis: int, inks: Any
    ) -> _Heard:
        """Answers of a picture's tokens to all patterns along one axis."""
        plain = [Image.new("RGB", size, (GREY,) * 3) for size in sizes]
        answers = []
        for pattern in range(len(patterns.signs)):
            signs = patterns.painted(pattern, sizes[number][1 - axis])
            one, other = (
                self.features([*plain[:number], _painted(sizes[number], axis, s, inks), *plain[number + 1 :]])[own]
                for s in (signs, -signs)
            )
            answers.append((one - other) / 2)
        found = torch.stack(answers, dim=1)
        products = (found @ found.mT).numpy()
        strength = products.trace(axis1=1, axis2=2)
        return _Heard(products / np.maximum(strength, 1e-300)[:, None, None], strength)


def prompt_inputs(processor: Any, pictures: Sequence[Image.Image], model: Any) -> ProcessorOutput:
    """Processor output for a question about pictures, as the model's own chat template renders it."""
    parts = [*({"type": "image"} for _ in pictures), {"type": "text", "text": "What is this?"}]
    text = render_chat(processor, [{"role": "user", "content": parts}])
    return processed(processor, text, pictures, model)


def _levels(size: Size, tokens: int) -> int:
    """So many that the narrowest stripes are half as wide as a token, if tokens are about square."""
    longer = math.sqrt(max(1, tokens) * max(size) / min(size))
    return min(_LEVELS, max(2, math.ceil(math.log2(longer)) + 1), max(2, int(math.log2(min(size)))))


def _painted(size: Size, axis: int, signs: Float64[np.ndarray, " length"], inks: Any) -> Image.Image:
    """Stripes across one axis: 0 for the height, 1 for the width."""
    line = np.where(signs[:, None] > 0, inks[0], np.where(signs[:, None] < 0, inks[1], GREY)).astype(np.uint8)
    whole = line[:, None] if axis == 0 else line[None, :]
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(whole, (size.height, size.width, 3))))


def _believed(placed: Sequence[Placed], confidence: float) -> bool:
    return _covered(placed) >= COVERED and _confidence(placed) >= confidence


def _covered(placed: Sequence[Placed]) -> float:
    return len({(one.view, one.row, one.column) for one in placed}) / max(1, len(placed))


def _confidence(placed: Sequence[Placed]) -> float:
    return float(np.median([one.confidence for one in placed])) if placed else 0.0


def _unchanged(tokens: int, size: Size) -> ModelError:
    return ModelError(
        f"probing did not find where the {tokens} image tokens of a picture of {size.width} by {size.height} pixels "
        "look: what enters the decoder there does not change with the picture; choose a model that vtrace models lists"
    )


def _refusal(placed: Sequence[Placed], size: Size) -> ModelError:
    return ModelError(
        f"probing did not find where the {len(placed)} image tokens of a picture of {size.width} by {size.height} "
        f"pixels look: they follow {_covered(placed):.0%} different places with a median confidence of "
        f"{_confidence(placed):.2f} (at least {COVERED:.0%} and {CONFIDENT} are needed); choose a model that vtrace "
        "models lists"
    )


def _cell(placed: Placed, size: Size) -> Cell:
    left, top, right, bottom = placed.box
    box = Box(left * size.width, top * size.height, right * size.width, bottom * size.height)
    return Cell(placed.view, placed.row, placed.column, box, placed.confidence)
