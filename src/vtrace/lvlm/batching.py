"""Several sequences in one decoder call: encoded one prompt at a time, repeated for its responses, right-padded.

Tokens of a causal decoder never see what comes after them, so padding on the right changes nothing and needs no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .encoding import with_response
from .families.family import IMAGE_ROWS, PER_TOKEN, Arguments, ProcessorOutput
from .model import Lvlm
from .seam import Seam


@torch.no_grad()
def encode_responses(lvlm: Lvlm, prompt: ProcessorOutput, responses: Sequence[Sequence[int]]) -> Arguments:
    """Decoder arguments of one prompt with several responses, one row each. The pictures are encoded once."""
    seam, start = lvlm.seam, prompt["input_ids"].shape[1]
    longest = max(map(len, responses))
    # Any token does for the response here; a sampled image token would make the model look for another picture.
    ids = [*prompt["input_ids"][0].tolist(), *[seam.pad_id] * longest]
    batch = seam.repeat(seam.encode(with_response(lvlm, prompt, ids)), len(responses))
    device = batch["inputs_embeds"].device
    for row, response in enumerate(responses):
        own = seam.token_inputs(torch.tensor(response, device=device))
        if not row:
            batch |= {name: batch[name].clone() for name in own}
        for name, value in own.items():
            batch[name][row, start : start + len(response)] = value
    return batch


def join(seam: Seam, parts: Sequence[Arguments]) -> Arguments:
    """One batch from several, right-padded to the longest."""
    if len(parts) == 1:
        return parts[0]
    shapes = [part["inputs_embeds"].shape[:2] for part in parts]
    joined = {name: _joined(name, [part[name] for part in parts], shapes) for name in parts[0]}
    extras = [torch.cat(rows) for rows in zip(*(seam.family.extras(part) for part in parts), strict=True)]
    return seam.family.with_extras(joined, extras)


def _joined(name: str, values: Sequence[Any], shapes: Sequence[torch.Size]) -> Any:
    """Values of one argument, for parts with these numbers of rows and tokens."""
    if name in IMAGE_ROWS:
        return values[0]
    if isinstance(values[0], dict):  # a mask for each kind of layer
        return {key: _joined(key, [value[key] for value in values], shapes) for key in values[0]}
    masks = [value for value in values if isinstance(value, Tensor) and value.ndim == 4]  # between positions
    if masks and len(masks) < len(values):  # sequences shorter than a sliding window have none
        values = [_causal(shape, masks[0]) if v is None else v for v, shape in zip(values, shapes, strict=True)]
    if not isinstance(values[0], Tensor):
        return values[0]
    if values[0].ndim == 1:  # indices of positions
        return max(values, key=len)
    lengths = [length for _, length in shapes]
    missing = [max(lengths) - length for length in lengths]
    padded = [_padded(name, value, count) for value, count in zip(values, missing, strict=True)]
    return torch.cat(padded, dim=1 if name == "position_ids" and values[0].ndim == 3 else 0)


def _causal(shape: torch.Size, like: Tensor) -> Tensor:
    """The mask that no mask stands for."""
    rows, length = shape
    seen = torch.ones(length, length, dtype=torch.bool, device=like.device).tril().expand(rows, 1, -1, -1)
    if like.dtype == torch.bool:
        return seen
    return torch.zeros_like(seen, dtype=like.dtype).masked_fill(~seen, torch.finfo(like.dtype).min)


def _padded(name: str, value: Tensor, count: int) -> Tensor:
    if name in PER_TOKEN:
        return F.pad(value, (0, 0) * (value.ndim - 2) + (0, count))
    if value.ndim < 4:
        return F.pad(value, (0, count), value=int(name == "attention_mask"))
    # A mask between positions: nothing sees the padding, and the padding sees everything, so that it stays finite.
    hidden = 0 if value.dtype == torch.bool else torch.finfo(value.dtype).min
    return F.pad(F.pad(value, (0, count), value=hidden), (0, 0, 0, count), value=int(value.dtype == torch.bool))
