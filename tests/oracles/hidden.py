"""Hidden inputs, literally: a plain pass of the whole model for every set, and a ranking refined by a loop of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from vtrace.tracing.pictures import blur
from vtrace.tracing.prompt import trace_inputs


class PlainPasses:
    """log p of every response token with some inputs hidden, in a model that reads pictures as rows of patches."""

    def __init__(self, lvlm, trace):
        self.lvlm, self.trace = lvlm, trace
        self.inputs = trace_inputs(lvlm, trace)
        self.soft = trace_inputs(lvlm, dataclasses.replace(trace, images=tuple(blur(trace.images))))["pixel_values"]

    def __call__(self, *hidden: int) -> torch.Tensor:
        image, start, ids = self.trace.positions("image"), self.trace.prompt_length, torch.tensor(self.trace.ids)
        pixels, words = self.inputs["pixel_values"].clone(), self.inputs["input_ids"].clone()
        merged = len(pixels) // len(image)  # rows of pixels behind one image token
        for position in hidden:
            if position in image:
                own = slice(merged * image.index(position), merged * (image.index(position) + 1))
                pixels[own] = self.soft[own]
            else:
                words[0, position] = self.lvlm.seam.pad_id
        changed = {**self.inputs, "pixel_values": pixels, "input_ids": words}
        with torch.no_grad():
            logs = self.lvlm.model(**changed, use_cache=False).logits[0].double().log_softmax(-1)
        return logs[start - 1 : -1].gather(1, ids[start:, None])[:, 0]


def refined(
    passes: PlainPasses, scores: np.ndarray, budget: int, tokens: list[int], sides: str
) -> tuple[list[int], dict[int, float]]:
    """All inputs in their new order, and what those are worth that were measured one at a time."""
    inputs = passes.trace.positions("image", "question")
    order = sorted(inputs, key=lambda p: -abs(scores[p]))
    clean, empty = (float(passes(*hidden)[tokens].sum()) for hidden in ((), inputs))
    worth = {}
    for position in order[:budget]:
        lost = clean - float(passes(position)[tokens].sum())
        gained = float(passes(*(p for p in inputs if p != position))[tokens].sum()) - empty
        worth[position] = lost if sides == "hidden" else (max(0, lost) + max(0, gained)) / 2
    return sorted(worth, key=lambda p: -worth[p]) + order[budget:], worth
