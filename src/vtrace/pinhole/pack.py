"""Training batches: several questions per picture, packed behind one shared prefix.

A packed row is [system, picture | question 1, response 1 | question 2, response 2 | …]. Questions see
the prefix and themselves, never each other, and their positions restart after the picture, so each
one is computed exactly as if it stood alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..benchmarks.shapes import TASKS, Sample, ask
from ..benchmarks.shapes.scene import BOARDS, CELL, COLOURS, SHAPES, Scene, random_scene, render
from ..prompt import SYSTEM_PROMPT

PATCH, MERGE = 16, 2
CELL_TOKENS = CELL // (PATCH * MERGE)  # visual tokens along one side of a board cell
IGNORE = -100


@dataclass
class Batch:
    pixels: Tensor  # images * patches, 1536
    grid: Tensor  # images, 3
    ids: Tensor  # images, length
    positions: Tensor  # 3, images, length
    mask: Tensor  # images, 1, length, length; True where a position may look
    labels: Tensor  # images, length; the next token on predictors of a response, else IGNORE


def scenes(rng: random.Random, images: int, count: tuple[int, int]) -> list[Scene]:
    """Training scenes of one board size, so that a batch has one grid."""
    board = rng.choice(BOARDS)
    found: list[Scene] = []
    while len(found) < images:
        scene = random_scene(rng, board, count)
        if scene.split == "train":
            found.append(scene)
    return found


def patchify(pictures: list[np.ndarray]) -> Tensor:
    """Pixels in the order of Qwen's image processor: merge blocks row-major, patches row-major inside them."""
    x = torch.from_numpy(np.stack(pictures)).float().div_(127.5).sub_(1)  # n, height, width, 3
    n, height, width, _ = x.shape
    x = x.view(n, height // 32, MERGE, PATCH, width // 32, MERGE, PATCH, 3).permute(0, 1, 4, 2, 5, 7, 3, 6)
    x = x.unsqueeze(6).expand(*x.shape[:6], 2, PATCH, PATCH)  # the still picture fills both frames
    return x.reshape(-1, 3 * 2 * PATCH * PATCH)


def vision_labels(batch: list[Scene]) -> Tensor:
    """Colour, shape, row and column of what each visual token shows: n, tokens, 4; IGNORE where nothing is."""
    rows, columns = batch[0].rows, batch[0].columns
    labels = torch.full((len(batch), rows * CELL_TOKENS, columns * CELL_TOKENS, 4), IGNORE)
    labels[..., 0], labels[..., 1] = len(COLOURS), len(SHAPES)
    labels[..., 2] = (torch.arange(rows * CELL_TOKENS) // CELL_TOKENS)[None, :, None]
    labels[..., 3] = (torch.arange(columns * CELL_TOKENS) // CELL_TOKENS)[None, None, :]
    for n, scene in enumerate(batch):
        for t in scene.things:
            r, c = (t.row - 1) * CELL_TOKENS, (t.column - 1) * CELL_TOKENS
            block = labels[n, r : r + CELL_TOKENS, c : c + CELL_TOKENS]
            block[..., 0] = list(COLOURS).index(t.colour)
            block[..., 1] = SHAPES.index(t.shape)
    return labels.flatten(1, 2)


def draw(batch: list[Scene]) -> tuple[Tensor, Tensor]:
    """Pixel rows and grids of the scenes, as the vision tower takes them."""
    pixels = patchify([np.asarray(render(scene)) for scene in batch])
    grid = torch.tensor([[1, batch[0].rows * CELL // PATCH, batch[0].columns * CELL // PATCH]] * len(batch))
    return pixels, grid


class Packer:
    """Turns scenes into batches with a tokenizer."""

    def __init__(self, tokenizer, per_image: int):
        self.per_image = per_image
        self.encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
        self.head = self.encode(f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n<|vision_start|>")
        self.image = tokenizer.convert_tokens_to_ids("<|image_pad|>")
        self.pad = tokenizer.pad_token_id

    def questions(self, scene: Scene, rng: random.Random, weights: dict[str, float]) -> list[Sample]:
        found: list[Sample] = []
        while len(found) < self.per_image:
            task = rng.choices(list(TASKS), [weights.get(t, 1.0) for t in TASKS])[0]
            item = ask(scene, task, rng)
            if item:
                found.append(item)
        return found

    def pack(self, batch: list[Scene], rng: random.Random, weights: dict[str, float]) -> Batch:
        pixels, grid = draw(batch)
        high, wide = (int(v) // MERGE for v in grid[0, 1:])
        start = len(self.head)
        prefix = [*self.head, *[self.image] * (high * wide), *self.encode("<|vision_end|>")]
        after = start + max(high, wide)  # M-RoPE resumes behind the larger side of the picture
        place = torch.arange(start).expand(3, -1)
        r, c = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        picture = start + torch.stack([torch.zeros_like(r), r, c]).flatten(1)
        prefix_positions = torch.cat([place, picture, torch.full((3, 1), after)], dim=1)

        rows = [self._row(scene, rng, weights, prefix, prefix_positions) for scene in batch]
        length = max(len(row[0]) for row in rows)

        def stacked(part: int, filler: int) -> Tensor:
            return torch.stack(
                [torch.nn.functional.pad(r[part], (0, length - r[part].shape[-1]), value=filler) for r in rows]
            )

        segment = stacked(2, -1)
        same = (segment[:, None, :] == segment[:, :, None]) | (segment[:, None, :] == 0)
        mask = (same & torch.ones(length, length).tril().bool())[:, None]
        return Batch(pixels, grid, stacked(0, self.pad), stacked(3, 0).transpose(0, 1), mask, stacked(1, IGNORE))

    def _row(
        self, scene: Scene, rng: random.Random, weights: dict[str, float], prefix: list[int], prefix_positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids, labels, segments (0 for the prefix) and positions of one picture with its questions."""
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
        text = torch.tensor(positions).expand(3, -1)
        return (
            torch.tensor(ids),
            torch.tensor(labels),
            torch.tensor(segment),
            torch.cat([prefix_positions, text], dim=1),
        )
