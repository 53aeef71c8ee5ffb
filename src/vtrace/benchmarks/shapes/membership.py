"""Whether a picture and a question belong to Shapes, the only world that the embedded models know.

Nothing is learnt here: a picture belongs if it has what `draw_scene` guarantees, and a question if the tasks write such
questions. A model that was trained on Shapes answers anything else, too, but its answers mean nothing there.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from PIL import Image

from ...lvlm.checkpoint_source import EMBEDDED, UNFINISHED
from ...lvlm.joined import JOINED
from ...types import Trace
from .questions import DIRECTIONS, PLURAL, TASKS
from .sample import sample
from .scene import CELL_PIXELS, SHAPE_COLOURS, SHAPES, WORLD

REAL_MODEL = "Qwen/Qwen3-VL-4B-Instruct"
_SIZES = {(columns * CELL_PIXELS, rows * CELL_PIXELS) for rows, columns in WORLD.boards}
_PALETTE = np.array(list(SHAPE_COLOURS.values()), dtype=np.int16)
_JITTER = 40  # of the colour of a thing: more than four standard deviations in each channel
_GREYISH = 90  # between the channels of a background's tint; those of a thing differ by more
_TINT = 75  # the furthest that texture, grain and strokes are from the tint of the background
_LEAST_DRAWN = 0.006  # share of pixels on things: six small stars have 0.009, without their blurred edges
_MOST_FOREIGN = 0.02  # share of pixels that are neither background nor thing: edges between the two
_SLOTS = {
    "colour": SHAPE_COLOURS,
    "shapes": PLURAL.values(),
    "shape": SHAPES,
    "direction": DIRECTIONS,
    "number": (r"\d",),
}
_ASKED = 32  # questions of each task, from which its wordings are taken


def notes(trace: Trace) -> list[str]:
    """A note if an embedded model was asked about something outside its world; else none."""
    name = trace.model.partition(" + ")[0]  # without an adapter
    if name not in (*EMBEDDED, *UNFINISHED, *JOINED):
        return []
    saved_without = not trace.images  # then nothing is known about the picture
    ours = saved_without or (len(trace.images) == 1 and is_shapes_picture(trace.images[0]))
    foreign = [] if ours else ["picture"]
    foreign += [] if is_shapes_question(trace.question) and len(trace.turns) < 2 else ["question"]
    if not foreign:
        return []
    what = f"this {' and this '.join(foreign)} {'are' if len(foreign) > 1 else 'is'} not from there"
    return [
        f"{name} is a toy. It knows only Shapes, boards of small coloured shapes; {what}, so its answer means nothing. "
        f'Ask a real model: vtrace explain PICTURE "QUESTION" --model {REAL_MODEL}'
    ]


def is_shapes_picture(image: Image.Image) -> bool:
    """Whether a picture has the size of a board, and nothing but a tinted background and things in their colours."""
    if image.size not in _SIZES:
        return False
    pixels = np.asarray(image.convert("RGB"), dtype=np.int16)
    tint = np.median(pixels, axis=(0, 1))
    thing = (np.abs(pixels[:, :, None] - _PALETTE).max(axis=3) <= _JITTER).any(axis=2)
    background = np.abs(pixels - tint).max(axis=2) <= _TINT
    drawn, foreign = thing.mean(), (~thing & ~background).mean()
    return bool(np.ptp(tint) <= _GREYISH and drawn >= _LEAST_DRAWN and foreign <= _MOST_FOREIGN)


def is_shapes_question(question: str) -> bool:
    """Whether a task of Shapes asks in these words, with whatever colours, shapes, numbers and directions."""
    return _wording(question) in _wordings()


@cache
def _wordings() -> frozenset[str]:
    return frozenset(_wording(sample("train", index).question) for index in range(_ASKED * len(TASKS)))


def _wording(question: str) -> str:
    """A question with slots in place of what varies."""
    text = " ".join(question.split())
    for slot, words in _SLOTS.items():
        text = re.sub(rf"\b(?:{'|'.join(words)})\b", f"<{slot}>", text)
    return text
