"""Scenes of the Shapes world: crowded boards of coloured shapes.

A scene is a board of cells with six to ten things on it, at most one per cell. A thing is named by
its colour and shape, and no two things in a scene share both, so "the red star" is always one thing,
while other red things and other stars are distractors.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from typing import Literal, get_args

from ...types import Box

SHAPES = ("circle", "square", "triangle", "star", "cross")
SHAPE_COLOURS = {
    "red": (208, 38, 44),
    "green": (40, 150, 62),
    "blue": (42, 82, 210),
    "yellow": (240, 210, 50),
    "purple": (140, 60, 168),
    "orange": (242, 134, 30),
}
CELL_PIXELS = 64  # pixels along a side
TOKEN_PIXELS = 32  # pixels along a side of a visual token of the embedded models
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
_BUCKET_SPLIT: tuple[Split, ...] = ("test", "dev")  # of ten hash buckets; the other eight are train


@dataclass(frozen=True)
class World:
    """The settings from which scenes are drawn."""

    boards: tuple[tuple[int, int], ...]  # rows x columns
    radius: tuple[float, float]  # pixels
    in_token: bool = False  # things lie within one visual token of their cell, not anywhere in it


# Evidence is sparse: a thing fits into one visual token, so showing a random third of the picture hides two thirds of
# the evidence. No two boards have the same number of cells, so a model that reads tiles in a row can tell them apart.
WORLD = World(boards=((4, 4), (3, 5), (4, 3)), radius=(9, 14), in_token=True)
# Pinhole-SmolLM2 scales pictures to a longer side of 256 pixels: only on these boards is each of its tiles a cell.
TILED = World(boards=((4, 4), (4, 3)), radius=WORLD.radius, in_token=True)
# For training: first large things, which are easy to read, on more boards; then small ones anywhere in their cells.
NURSERY = World(boards=((4, 4), (3, 5), (5, 3), (3, 4), (4, 3)), radius=(17, 26))
SCHOOL = World(boards=WORLD.boards, radius=WORLD.radius)


@dataclass(frozen=True)
class Thing:
    colour: str
    shape: str
    row: int  # 1-based, as in the text
    column: int
    x: float  # centre, pixels
    y: float
    radius: float
    angle: float  # radians

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def cell(self) -> str:
        return f"row {self.row} column {self.column}"

    @property
    def box(self) -> Box:
        """Around the drawn outline."""
        xs, ys = zip(*self.outline, strict=True)
        return Box(min(xs), min(ys), max(xs), max(ys))

    @property
    def outline(self) -> list[tuple[float, float]]:
        """Corner points of the shape, in pixels."""
        match self.shape:
            case "circle":
                polar = [(0.9, 2 * math.pi * k / 28) for k in range(28)]
            case "square":
                polar = [(1.08, math.pi / 4 + math.pi / 2 * k) for k in range(4)]
            case "triangle":
                polar = [(1.05, -math.pi / 2 + 2 * math.pi / 3 * k) for k in range(3)]
            case "star":
                polar = [(1.0 if k % 2 == 0 else 0.42, -math.pi / 2 + math.pi / 5 * k) for k in range(10)]
            case _:  # cross: four arms, three corners each
                inner, tip, lean = 0.34 * math.sqrt(2), math.hypot(0.95, 0.34), math.atan2(0.34, 0.95)
                polar = [
                    corner
                    for k in range(4)
                    for corner in (
                        (tip, math.pi / 2 * k - lean),
                        (tip, math.pi / 2 * k + lean),
                        (inner, math.pi / 2 * k + math.pi / 4),
                    )
                ]
        turned = [(self.radius * r, a + self.angle) for r, a in polar]
        return [(self.x + r * math.cos(a), self.y + r * math.sin(a)) for r, a in turned]


@dataclass(frozen=True)
class Scene:
    rows: int
    columns: int
    things: tuple[Thing, ...]  # row-major order
    background: int  # seed of the background texture

    @property
    def size(self) -> tuple[int, int]:
        """Width, height in pixels."""
        return self.columns * CELL_PIXELS, self.rows * CELL_PIXELS

    @property
    def split(self) -> Split:
        """The split of this layout: a function of its contents, so splits cannot overlap."""
        layout = [self.rows, self.columns, *((t.cell, t.name) for t in self.things)]
        bucket = hashlib.sha256(repr(layout).encode()).digest()[0] % 10
        return _BUCKET_SPLIT[bucket] if bucket < len(_BUCKET_SPLIT) else "train"


def random_scene(
    rng: random.Random,
    board: tuple[int, int] | None = None,
    count: tuple[int, int] = (6, 10),
    world: World = WORLD,
) -> Scene:
    """A scene drawn from the world, of any split."""
    rows, columns = board or rng.choice(world.boards)
    number = rng.randint(*count)
    colours = rng.sample(list(SHAPE_COLOURS), rng.randint(3, 5))
    shapes = rng.sample(SHAPES, rng.randint(4 if len(colours) == 3 else 3, 5))
    names = rng.sample([(c, s) for c in colours for s in shapes], number)
    cells = sorted(rng.sample([(r, c) for r in range(rows) for c in range(columns)], number))
    things = tuple(_place(rng, world, *name, *cell) for name, cell in zip(names, cells, strict=True))
    return Scene(rows, columns, things, rng.getrandbits(32))


def _place(rng: random.Random, world: World, colour: str, shape: str, row: int, column: int) -> Thing:
    radius = rng.uniform(*world.radius)
    left, top, room = column * CELL_PIXELS, row * CELL_PIXELS, CELL_PIXELS
    if world.in_token:
        left, top, room = left + TOKEN_PIXELS * rng.randrange(2), top + TOKEN_PIXELS * rng.randrange(2), TOKEN_PIXELS
    slack = room / 2 - radius - 1
    x = left + room / 2 + rng.uniform(-slack, slack)
    y = top + room / 2 + rng.uniform(-slack, slack)
    return Thing(colour, shape, row + 1, column + 1, x, y, radius, rng.uniform(-0.25, 0.25))
