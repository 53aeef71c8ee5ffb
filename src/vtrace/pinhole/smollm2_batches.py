"""Questions for Pinhole-SmolLM2, packed: many about each picture, after one prefix that holds the picture."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ..benchmarks.shapes.questions import TASKS
from ..benchmarks.shapes.sample import ask_about
from ..benchmarks.shapes.scene import TILED, Scene
from .objectives import OBJECTS
from .packed_attention import PackedRows
from .smollm2 import Parts, prompt_beginning
from .training_batches import IGNORE, training_scenes


class QuestionBatch(NamedTuple):
    """One row for each picture."""

    scenes: list[Scene]
    ids: Tensor  # rows, length
    positions: Tensor  # rows, length
    labels: Tensor  # rows, length; the next token on predictors of a response, else IGNORE
    rows: PackedRows


def pack_questions(
    parts: Parts, rng: random.Random, images: int, per_image: int, weights: Mapping[str, float]
) -> QuestionBatch:
    scenes = training_scenes(rng, images, OBJECTS, TILED)
    prefix = parts.encode(prompt_beginning(scenes[0].rows, scenes[0].columns))
    asked = [_questions(parts, scene, rng, per_image, weights) for scene in scenes]
    begin, longest = len(prefix), max(len(ask) + len(tell) for row in asked for ask, tell in row)
    rest = max(sum(len(ask) + len(tell) for ask, tell in row) for row in asked)
    ids = torch.full((images, begin + rest), parts.tokenizer.pad_token_id)
    labels, positions = torch.full_like(ids, IGNORE), torch.zeros_like(ids)
    where = torch.full((images, per_image, longest), begin + rest - 1)
    back = torch.zeros(images, rest, dtype=torch.long)
    ids[:, :begin], positions[:, :begin] = torch.tensor(prefix), torch.arange(begin)
    for n, row in enumerate(asked):
        at = begin
        for k, (ask, tell) in enumerate(row):
            length = len(ask) + len(tell)
            own = slice(at, at + length)
            ids[n, own], positions[n, own] = torch.tensor(ask + tell), begin + torch.arange(length)
            labels[n, at + len(ask) - 1 : at + length - 1] = torch.tensor(tell)
            where[n, k, :length] = torch.arange(at, at + length)
            back[n, at - begin : at - begin + length] = k * longest + torch.arange(length)
            at += length
    return QuestionBatch(scenes, ids, positions, labels, PackedRows(begin, where, back))


def _questions(
    parts: Parts, scene: Scene, rng: random.Random, count: int, weights: Mapping[str, float]
) -> list[tuple[list[int], list[int]]]:
    """Tokens of questions and of their responses."""
    found: list[tuple[list[int], list[int]]] = []
    while len(found) < count:
        task = rng.choices(list(TASKS), [weights.get(name, 1.0) for name in TASKS])[0]
        if item := ask_about(scene, task, rng):
            ask = parts.encode(f"{item.question}<|im_end|>\n<|im_start|>assistant\n")
            found.append((ask, parts.encode(f"{item.response}<|im_end|>")))
    return found
