"""Processor output for pictures with some patches blurred: swapped in processed pixels, or pasted into the picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor

from ..lvlm.encoding import with_response
from ..lvlm.families.family import FindPixels, ProcessorOutput
from ..lvlm.model import Lvlm
from ..types import Trace
from .pictures import blur
from .prompt import process, processed_prompt

Replacements = dict[Any, Callable[[Tensor], Tensor]]  # of modules, while pictures are encoded


class BlurredPixels(Protocol):
    """Where the inputs of perturbed pictures come from."""

    together: bool  # whether several pictures can be encoded at once
    replacements: Replacements

    def inputs(self, pictures: Sequence[frozenset[int]]) -> ProcessorOutput:
        """Inputs of a batch in which each picture has these image positions blurred."""
        ...

    def all_blurred(self) -> ProcessorOutput: ...


def blurred_pixels(lvlm: Lvlm, trace: Trace, clean: ProcessorOutput, radius: float) -> BlurredPixels:
    find = lvlm.family.pixel_mask
    return SwappedPixels(lvlm, trace, clean, radius, find) if find else PastedPatches(lvlm, trace, radius)


class SwappedPixels:
    """A blurred copy of the picture is processed once, and every picture takes the pixels of its patches from it."""

    def __init__(self, lvlm: Lvlm, trace: Trace, clean: ProcessorOutput, radius: float, find: FindPixels):
        self._lvlm, self._clean, self._image, self._find = lvlm, clean, trace.positions("image"), find
        self._blurred = process(lvlm, processed_prompt(lvlm, trace).text, blur(trace.images, radius))["pixel_values"]
        self.replacements: Replacements = {}
        self.together = not lvlm.family.pictures_mix
        self._pixels = self._clean["pixel_values"], self._blurred
        if lvlm.family.patch_embed:  # patches are embedded independently: once for all states, and then mixed
            embed = lvlm.family.patch_embed(lvlm.model)
            with torch.no_grad():
                self._pixels = embed(self._pixels[0]), embed(self._pixels[1])
            self.replacements[embed] = lambda rows: rows

    def inputs(self, pictures: Sequence[frozenset[int]]) -> ProcessorOutput:
        family, config = self._lvlm.family, self._lvlm.model.config
        inputs = {
            name: self._copies(name, value, len(pictures)) if isinstance(value, Tensor) else value
            for name, value in self._clean.items()
            if name != "pixel_values"
        }
        clean, other = self._pixels
        masks = [torch.tensor([p in picture for p in self._image]).to(clean.device) for picture in pictures]
        chosen = [self._find(self._clean, mask, config) for mask in masks]
        inputs["pixel_values"] = torch.cat([clean.where(~mask, other) for mask in chosen], dim=family.pixel_axis)
        return inputs

    def _copies(self, name: str, value: Tensor, count: int) -> Tensor:
        if name != self._lvlm.family.patch_numbers:
            return torch.cat([value] * count)
        patches = self._clean["pixel_values"].shape[:2].numel()
        return torch.cat([value.where(value < 0, value + k * patches) for k in range(count)])

    def all_blurred(self) -> ProcessorOutput:
        return {**self._clean, "pixel_values": self._blurred}


class PastedPatches:
    """Boxes are pasted from a blurred copy into the picture, which the processor reads again: for probed models, of
    which it is not known how they process pixels. A patch is blurred for all tokens that see its place."""

    together = False

    def __init__(self, lvlm: Lvlm, trace: Trace, radius: float):
        self._lvlm, self._trace = lvlm, trace
        self._soft = blur(trace.images, radius)
        self.replacements: Replacements = {}

    def inputs(self, pictures: Sequence[frozenset[int]]) -> ProcessorOutput:
        (picture,) = pictures
        return self._processed([self._pasted(number, picture) for number in range(len(self._soft))])

    def all_blurred(self) -> ProcessorOutput:
        return self._processed(self._soft)

    def _pasted(self, number: int, positions: frozenset[int]) -> Image.Image:
        mixed = self._trace.images[number].copy()
        for patch in self._trace.patches:
            left, top, right, bottom = (round(side) for side in patch.box)
            if patch.image == number and patch.position in positions and right > left and bottom > top:
                mixed.paste(self._soft[number].crop((left, top, right, bottom)), (left, top))
        return mixed

    def _processed(self, pictures: Sequence[Image.Image]) -> ProcessorOutput:
        prompt = processed_prompt(self._lvlm, self._trace)
        return with_response(self._lvlm, process(self._lvlm, prompt.text, pictures), self._trace.ids)
