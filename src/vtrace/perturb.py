"""The same frozen response under other inputs: some patches blurred in the picture, some words padded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch
from PIL import ImageFilter
from torch import Tensor

from .attribution import trace_inputs
from .lvlm import Lvlm
from .lvlm.family import Arguments
from .lvlm.seam import BATCH_TOKENS
from .types import Trace

BLUR = 1 / 12  # radius of the Gaussian as a share of the picture's longer side


def blurred(trace: Trace, radius: float = BLUR) -> Trace:
    """The trace with its pictures blurred; tokens stay as they are."""
    filters = [ImageFilter.GaussianBlur(radius * max(image.size)) for image in trace.images]
    return replace(trace, images=tuple(i.filter(f) for i, f in zip(trace.images, filters, strict=True)))


class Perturbation:
    """Perturbs one trace. A patch is blurred in processed pixels, so that tokens and pixels stay aligned."""

    def __init__(self, lvlm: Lvlm, trace: Trace, radius: float = BLUR):
        self.lvlm, self.trace = lvlm, trace
        self._clean = trace_inputs(lvlm, trace)
        self._blurred = trace_inputs(lvlm, blurred(trace, radius))["pixel_values"]
        self._image = trace.positions("image")

    def encode(self, states: Sequence[Collection[int]]) -> Arguments:
        """Decoder arguments of a batch: image positions of a state are blurred, all others padded."""
        seam, count = self.lvlm.seam, len(states)
        inputs = {
            name: torch.cat([value] * count) if isinstance(value, Tensor) else value
            for name, value in self._clean.items()
        }
        pixels = self._clean["pixel_values"]
        config = self.lvlm.model.config
        inputs["pixel_values"] = torch.cat(
            [
                self.lvlm.family.mix_pixels(
                    pixels, self._blurred, torch.tensor([p in state for p in self._image]), config
                )
                for state in map(set, states)
            ]
        )
        arguments = seam.encode(inputs)
        words = [set(state) - set(self._image) for state in states]
        return seam.pad_rows(arguments, words) if any(words) else arguments

    def log_probabilities(
        self, states: Sequence[Collection[int]], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Tensor:
        """log p of every response token in each state: states, n; float64."""
        ids, start = torch.tensor(self.trace.ids), self.trace.prompt_length
        together = max(1, BATCH_TOKENS // len(ids))
        parts = []
        for k in range(0, len(states), together):
            parts.append(self.lvlm.seam.log_probabilities(self.encode(states[k : k + together]), ids, start))
            progress(min(k + together, len(states)), len(states))
        return torch.cat(parts)
