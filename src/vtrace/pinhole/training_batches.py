"""Training batches: several questions per picture, packed after one shared prefix.

A packed row is [system, picture | question 1, response 1 | question 2, response 2 | …]. A question attends to the
prefix and to itself, never to other questions, and its positions restart after the picture, so each one is computed
exactly as if it were alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Qwen2Tokenizer

from ..benchmarks.shapes.questions import TASKS
from ..benchmarks.shapes.sample import Sample, ask_about
from ..benchmarks.shapes.scene import CELL_PIXELS, SHAPE_COLOURS, SHAPES, TOKEN_PIXELS, Scene, World, random_scene
from ..tracing.defaults import SYSTEM_PROMPT
from .recipe import Recipe

CELL_TOKENS = CELL_PIXELS // TOKEN_PIXELS  # visual tokens along one side of a board cell
IGNORE = -100


@dataclass(frozen=True)
class Batch:
    """Packed rows, one per picture."""

    pixels: dict[str, Tensor]  # as the vision tower takes them
    ids: Tensor  # images, length
    positions: Tensor  # axes, images, length
    mask: Tensor  # images, 1, length, length; True where a position may attend
    labels: Tensor  # images, length; the next token on predictors of a response, else IGNORE


def training_scenes(rng: random.Random, images: int, count: tuple[int, int], world: World) -> list[Scene]:
    """Training scenes of one board size, so that a batch has one grid."""
    board = rng.choice(world.boards)
    found: list[Scene] = []
    while len(found) < images:
        scene = random_scene(rng, board, count, world)
        if scene.split == "train":
            found.append(scene)
    return found


def vision_labels(batch: Sequence[Scene]) -> Tensor:
    """Colour, shape, row and column of what each visual token shows: n, rows, columns, 4."""
    rows, columns = batch[0].rows, batch[0].columns
    labels = torch.full((len(batch), rows * CELL_TOKENS, columns * CELL_TOKENS, 4), IGNORE)
    labels[..., 0], labels[..., 1] = len(SHAPE_COLOURS), len(SHAPES)
    labels[..., 2] = (torch.arange(rows * CELL_TOKENS) // CELL_TOKENS)[None, :, None]
    labels[..., 3] = (torch.arange(columns * CELL_TOKENS) // CELL_TOKENS)[None, None, :]
    for n, scene in enumerate(batch):
        for t in scene.things:
            if 2 * t.radius < TOKEN_PIXELS:  # small things are where their centre is, large ones fill their cell
                r, c, side = int(t.y) // TOKEN_PIXELS, int(t.x) // TOKEN_PIXELS, 1
            else:
                r, c, side = (t.row - 1) * CELL_TOKENS, (t.column - 1) * CELL_TOKENS, CELL_TOKENS
            block = labels[n, r : r + side, c : c + side]
            block[..., 0] = list(SHAPE_COLOURS).index(t.colour)
            block[..., 1] = SHAPES.index(t.shape)
    return labels


class _PackedRow(NamedTuple):
    """One picture with its questions."""

    ids: Tensor
    labels: Tensor
    segments: Tensor  # 0 for the prefix, then the number of the question
    positions: Tensor  # axes, length


class Packer:
    """Turns scenes into batches for a model."""

    def __init__(self, recipe: Recipe, tokenizer: Qwen2Tokenizer, per_image: int):
        self.recipe, self.per_image = recipe, per_image
        self._tokenizer = tokenizer
        self.head = self.encode(f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n{recipe.opening}")
        self.image = tokenizer.convert_tokens_to_ids(recipe.image_token)
        self.pad = tokenizer.pad_token_id

    def encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def questions(self, scene: Scene, rng: random.Random, weights: Mapping[str, float]) -> list[Sample]:
        found: list[Sample] = []
        while len(found) < self.per_image:
            task = rng.choices(list(TASKS), [weights.get(t, 1.0) for t in TASKS])[0]
            item = ask_about(scene, task, rng)
            if item:
                found.append(item)
        return found

    def pack(self, batch: Sequence[Scene], rng: random.Random, weights: Mapping[str, float]) -> Batch:
        picture, room = self.recipe.image_positions(batch[0].rows * CELL_TOKENS, batch[0].columns * CELL_TOKENS)
        start = len(self.head)
        prefix = [*self.head, *[self.image] * picture.shape[1], *self.encode(self.recipe.closing)]
        before, after = torch.arange(start).expand(len(picture), -1), torch.full((len(picture), 1), start + room)
        prefix_positions = torch.cat([before, start + picture, after], dim=1)

        rows = [self._row(scene, rng, weights, prefix, prefix_positions) for scene in batch]
        length = max(len(row.ids) for row in rows)

        def stacked(parts: Iterable[Tensor], filler: int) -> Tensor:
            return torch.stack([pad(part, (0, length - part.shape[-1]), value=filler) for part in parts])

        segment = stacked((row.segments for row in rows), -1)
        same = (segment[:, None, :] == segment[:, :, None]) | (segment[:, None, :] == 0)
        mask = (same & torch.ones(length, length).tril().bool())[:, None]
        return Batch(
            pixels=self.recipe.draw(batch),
            ids=stacked((row.ids for row in rows), self.pad),
            positions=stacked((row.positions for row in rows), 0).transpose(0, 1),
            mask=mask,
            labels=stacked((row.labels for row in rows), IGNORE),
        )

    def _row(
        self,
        scene: Scene,
        rng: random.Random,
        weights: Mapping[str, float],
        prefix: list[int],
        prefix_positions: Tensor,
    ) -> _PackedRow:
        ids, labels, segment = list(prefix), [IGNORE] * len(prefix), [0] * len(prefix)
        positions: list[int] = []
        first = int(prefix_positions.max()) + 1
        for k, item in enumerate(self.questions(scene, rng, weights), start=1):
            ask_ids = self.encode(f"{item.question}<|im_end|>\n<|im_start|>assistant\n")
            tell_ids = self.encode(f"{item.response}<|im_end|>")
            ids += ask_ids + tell_ids
            labels += [IGNORE] * (len(ask_ids) - 1) + tell_ids + [IGNORE]
            segment += [k] * (len(ask_ids) + len(tell_ids))
            positions += range(first, first + len(ask_ids) + len(tell_ids))
        text = torch.tensor(positions).expand(len(prefix_positions), -1)
        all_positions = torch.cat([prefix_positions, text], dim=1)
        return _PackedRow(torch.tensor(ids), torch.tensor(labels), torch.tensor(segment), all_positions)
