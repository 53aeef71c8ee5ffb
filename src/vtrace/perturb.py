"""The same frozen response under other inputs: some patches blurred in the picture, some words padded."""

from __future__ import annotations

from collections import OrderedDict
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
KEPT = 64  # picture states whose vision features are kept


def blurred(trace: Trace, radius: float = BLUR) -> Trace:
    """The trace with its pictures blurred; tokens stay as they are."""
    filters = [ImageFilter.GaussianBlur(radius * max(image.size)) for image in trace.images]
    return replace(trace, images=tuple(i.filter(f) for i, f in zip(trace.images, filters, strict=True)))


class Perturbation:
    """Perturbs one trace: image positions of a state are blurred, all others padded.

    A blurred copy of the picture is processed once; a state takes the processed pixels of its patches from
    it, so that tokens and pixels stay aligned. The picture is encoded anew for every state, and the features
    are used again where another state shows the same picture.
    """

    def __init__(self, lvlm: Lvlm, trace: Trace, radius: float = BLUR):
        self.lvlm, self.trace = lvlm, trace
        self._clean = trace_inputs(lvlm, trace)
        self._blurred = trace_inputs(lvlm, blurred(trace, radius))["pixel_values"]
        self._image = trace.positions("image")
        self._arguments = lvlm.seam.encode(self._clean)
        self._features: OrderedDict[frozenset[int], list[Tensor]] = OrderedDict()

    def arguments(self, states: Sequence[Collection[int]]) -> Arguments:
        """Decoder arguments of a batch."""
        seam = self.lvlm.seam
        image = set(self._image)
        parts = [frozenset(image.intersection(state)) for state in states]
        shown = self._encode(parts)
        batch = seam.family.repeat(self._arguments, len(states))
        embeds = batch["inputs_embeds"].clone()
        for row, features in enumerate(shown):
            embeds[row, self._image] = features[0]
        batch = {**batch, "inputs_embeds": embeds}
        extras = [torch.cat(rows) for rows in zip(*(features[1:] for features in shown), strict=True)]
        batch = seam.family.with_extras(batch, extras)
        words = [set(state) - image for state in states]
        return seam.pad_rows(batch, words) if any(words) else batch

    def log_probabilities(
        self, states: Sequence[Collection[int]], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Tensor:
        """log p of every response token in each state: states, n; float64."""
        ids, start = torch.tensor(self.trace.ids), self.trace.prompt_length
        together = max(1, BATCH_TOKENS // len(ids))
        parts = []
        for k in range(0, len(states), together):
            parts.append(self.lvlm.seam.log_probabilities(self.arguments(states[k : k + together]), ids, start))
            progress(min(k + together, len(states)), len(states))
        return torch.cat(parts)

    def _encode(self, parts: Sequence[frozenset[int]]) -> list[list[Tensor]]:
        """Per state of the picture its vision features: rows of image positions of the embeddings, and extras."""
        new = [part for part in dict.fromkeys(parts) if part not in self._features]
        if new:
            family, config, count = self.lvlm.family, self.lvlm.model.config, len(new)
            inputs = {
                name: torch.cat([value] * count) if isinstance(value, Tensor) else value
                for name, value in self._clean.items()
            }
            masks = [torch.tensor([p in part for p in self._image]) for part in new]
            pixels = [family.mix_pixels(self._clean["pixel_values"], self._blurred, mask, config) for mask in masks]
            inputs["pixel_values"] = torch.cat(pixels)
            embeds, *extras = self.lvlm.seam.inputs(self.lvlm.seam.encode(inputs))
            for row, part in enumerate(new):
                rows = [extra.view(count, len(self._image), -1)[row] for extra in extras]
                self._features[part] = [embeds[row, self._image], *rows]
        found = [self._features[part] for part in parts]
        for part in parts:
            self._features.move_to_end(part)
        while len(self._features) > KEPT:
            self._features.popitem(last=False)
        return found
