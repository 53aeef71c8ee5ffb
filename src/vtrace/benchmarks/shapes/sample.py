"""Samples of Shapes, the seeded world of the embedded models, with evidence known by construction."""

from __future__ import annotations

import random
from dataclasses import dataclass

from PIL import Image

from ...types import Box, Span
from ..marked_text import unmark
from .questions import ANSWER_PREFIX, TASKS
from .scene import SPLITS, WORLD, Scene, Split, World, random_scene


@dataclass(frozen=True)
class Sample:
    """One question about one picture, with everything that is known about it."""

    key: str
    task: str
    scene: Scene
    question: str
    reasoning: str
    answer: str
    evidence_boxes: tuple[Box, ...]
    evidence_words: tuple[Span, ...]  # characters of the question
    other_boxes: tuple[Box, ...]  # of the other things in the picture

    @property
    def image(self) -> Image.Image:
        from .drawing import draw_scene  # slow, and not needed to ask about a scene

        return draw_scene(self.scene)

    @property
    def response(self) -> str:
        return f"{self.reasoning}\n{ANSWER_PREFIX} {self.answer}"


def sample(split: Split, index: int, world: World = WORLD) -> Sample:
    """The sample of a split with this index. Tasks take turns; everything else is seeded by split and index."""
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    task = list(TASKS)[index % len(TASKS)]
    rng = random.Random(f"shapes/{split}/{index}")
    while True:
        scene = random_scene(rng, world=world)
        if scene.split == split and (found := ask_about(scene, task, rng, f"{split}-{index:05d}")):
            return found


def ask_about(scene: Scene, task: str, rng: random.Random, key: str = "") -> Sample | None:
    """A question of the task about the scene, or None if the scene does not allow one."""
    draft = TASKS[task](scene, rng)
    if draft is None:
        return None
    question, words, _ = unmark(draft.question)
    boxes = tuple(thing.box for thing in draft.evidence)
    others = tuple(thing.box for thing in scene.things if thing not in draft.evidence)
    return Sample(key, task, scene, question, draft.reasoning, draft.answer, boxes, words, others)
