"""Find out where the image tokens of a model look, by painting patterns into pictures and reading its features.

Every pattern is painted twice, with its inks exchanged, and the change of the features at image positions, where they
enter the decoder, is what tokens answer. Half of a pattern is always of either ink, so what reaches a token from
everywhere at once, through attention in the vision tower, mostly cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int8
from PIL import Image
from torch import Tensor
from transformers import ProcessorMixin

from ...errors import ModelError
from ...types import Box
from ..families.family import Cell, ModelConfig, PictureCells, ProcessorOutput, Size
from ..processor import processed, render_chat
from ..seam import Seam
from .held_out import Course, confirmed
from .placing import Answers, Grids, Placed

INKS = (((235, 200, 40), (30, 50, 190)), ((200, 40, 60), (60, 210, 200)))  # the second if the first finds too little
GREY = 128
CONFIDENT = 0.35  # median over tokens, below which nothing is believed
COVERED = 0.9  # share of tokens that have to stand on a cell of their own
SILENT = 1e-6  # of the median: a token that answers less shows nothing, such as the end of a row
_LEVELS = 8  # stripes are never narrower than 1/256 of a side


class _Limits(NamedTuple):
    """What is demanded of a layout."""

    sure: float  # median confidence from which the first inks suffice
    foretold: float  # share of each view's tokens whose answers to checkerboards their cells have to predict


_PLAIN = _Limits(0.5, 0.75)  # one grid over the whole picture
_OTHER = _Limits(0.9, 0.9)  # anything else: of many layouts, one may fit by chance


class _Heard(NamedTuple):
    """What tokens answered in one pair of inks: products of answers, and their sum of squares."""

    products: Float64[np.ndarray, "tokens pictures pictures"]
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

    def features(self, pictures: Sequence[Image.Image]) -> Float32[Tensor, "tokens width"]:
        """What enters the decoder at image positions."""
        inputs = prompt_inputs(self._processor, pictures, self._seam.model)
        shown = inputs["input_ids"][0] == self._token
        return self._seam.encode(inputs)["inputs_embeds"][0, shown].detach().cpu().float()

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
        course = Course.of_levels(levels)
        heard: list[_Heard] = []
        for inks in INKS:
            heard.append(self._ask(sizes, number, own, course.signs(size.height, size.width), inks))
            loud = np.sum([ink.strength for ink in heard], axis=0)
            live = loud > SILENT * np.median(loud)
            if not live.any():
                raise _unchanged(count, size)
            most, aspect = min(count, 2**levels), size.width / size.height
            placed = place([ink.products[live] for ink in heard], course, most, aspect)
            if believed(placed, _limits(placed).sure):
                break
        if not believed(placed, CONFIDENT):
            raise _refusal(placed, size)
        found = iter(placed)
        return [_cell(next(found), size) if alive else None for alive in live]

    def _ask(
        self, sizes: tuple[Size, ...], number: int, own: np.ndarray, pictures: Iterable[np.ndarray], inks: Any
    ) -> _Heard:
        """Answers of a picture's tokens to all that is painted into it."""
        plain = [Image.new("RGB", size, (GREY,) * 3) for size in sizes]
        answers = []
        for signs in pictures:
            one, other = (
                self.features([*plain[:number], _painted(sizes[number], s, inks), *plain[number + 1 :]])[own]
                for s in (signs, -signs)
            )
            answers.append((one - other) / 2)
        found = torch.stack(answers, dim=1)
        products = (found @ found.mT).double().numpy()
        return _Heard(products, products.trace(axis1=1, axis2=2))


def place(
    heard: Sequence[Float64[np.ndarray, "tokens pictures pictures"]], course: Course, most: int, aspect: float
) -> list[Placed]:
    """Every token, from what all inks say. A place that does not predict answers to checkerboards is not trusted."""
    down, across, _ = course.parts()
    rows, columns = (
        Answers(np.mean([_shares(products[:, part, part]) for products in heard], axis=0), course.patterns)
        for part in (down, across)
    )
    placed = Grids(rows, columns, most, aspect).place()
    right = confirmed(np.mean([_shares(products) for products in heard], axis=0), course, placed)
    return [one if sure else one._replace(confidence=0.0) for one, sure in zip(placed, right, strict=True)]


def _shares(products: Float64[np.ndarray, "tokens _ _"]) -> Float64[np.ndarray, "tokens _ _"]:
    """Products whose diagonal sums to 1 for each token."""
    return products / np.maximum(products.trace(axis1=1, axis2=2), 1e-300)[:, None, None]


def prompt_inputs(processor: Any, pictures: Sequence[Image.Image], model: Any) -> ProcessorOutput:
    """Processor output for a question about pictures, as the model's own chat template renders it."""
    parts = [*({"type": "image"} for _ in pictures), {"type": "text", "text": "What is this?"}]
    text = render_chat(processor, [{"role": "user", "content": parts}])
    return processed(processor, text, pictures, model)


def _levels(size: Size, tokens: int) -> int:
    """So many that the narrowest stripes are half as wide as a token, if tokens are about square."""
    longer = math.sqrt(max(1, tokens) * max(size) / min(size))
    return min(_LEVELS, max(2, math.ceil(math.log2(longer)) + 1), max(2, int(math.log2(min(size)))))


def _painted(size: Size, signs: Int8[np.ndarray, "_ _"], inks: Any) -> Image.Image:
    """One ink or the other, and grey for 0. A side of 1 is the same all along."""
    part = np.array([inks[1], (GREY,) * 3, inks[0]], dtype=np.uint8)[signs + 1]
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(part, (size.height, size.width, 3))))


def believed(placed: Sequence[Placed], confidence: float) -> bool:
    foretold = _foretold(placed) >= _limits(placed).foretold
    return foretold and _covered(placed) >= COVERED and _confidence(placed) >= confidence


def _limits(placed: Sequence[Placed]) -> _Limits:
    """A grid is plain if every token has the same share of the picture: it is alone, neither padded nor cropped."""
    sizes = [(right - left) * (bottom - top) for left, top, right, bottom in (one.box for one in placed)]
    return _PLAIN if all(math.isclose(size * len(placed), 1) for size in sizes) else _OTHER


def _covered(placed: Sequence[Placed]) -> float:
    return len({(one.view, one.row, one.column) for one in placed}) / max(1, len(placed))


def _foretold(placed: Sequence[Placed]) -> float:
    """Of the view with the fewest."""
    right = [(one.view, one.confidence > 0) for one in placed]
    views = {view for view, _ in right}
    return min((float(np.mean([sure for own, sure in right if own == view])) for view in views), default=0.0)


def _confidence(placed: Sequence[Placed]) -> float:
    return float(np.median([one.confidence for one in placed])) if placed else 0.0


def _unchanged(tokens: int, size: Size) -> ModelError:
    return ModelError(
        f"probing did not find where the {tokens} image tokens of a picture of {size.width} by {size.height} pixels "
        "look: what enters the decoder there does not change with the picture; choose a model that vtrace models lists"
    )


def _refusal(placed: Sequence[Placed], size: Size) -> ModelError:
    needed = _limits(placed).foretold
    return ModelError(
        f"probing did not find where the {len(placed)} image tokens of a picture of {size.width} by {size.height} "
        f"pixels look: they follow {_covered(placed):.0%} different places with a median confidence of "
        f"{_confidence(placed):.2f}, and {_foretold(placed):.0%} of the places predict further pictures (at least "
        f"{COVERED:.0%}, {CONFIDENT} and {needed:.0%} are needed); choose a model that vtrace models lists"
    )


def _cell(placed: Placed, size: Size) -> Cell:
    left, top, right, bottom = placed.box
    box = Box(left * size.width, top * size.height, right * size.width, bottom * size.height)
    return Cell(placed.view, placed.row, placed.column, box, placed.confidence)
