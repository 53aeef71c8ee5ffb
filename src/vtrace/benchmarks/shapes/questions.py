"""Questions about a scene, with gold reasoning, the answer, and the evidence it depends on.

Each task is one function from a scene to a `Draft`, or to None if the scene does not allow such a question. Tasks that
end in `_read` reason only about *where* to look; the answer is the first to name what is there, so it has to be read
from the picture.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from .scene import SHAPE_COLOURS, SHAPES, Scene, Thing

ANSWER_PREFIX = "Final answer:"
_Trait = Literal["colour", "shape"]
_TRAITS: tuple[_Trait, ...] = ("colour", "shape")
PLURAL = {shape: shape + ("es" if shape.endswith("s") else "s") for shape in SHAPES}
DIRECTIONS = {"right of": (0, 1), "left of": (0, -1), "below": (1, 0), "above": (-1, 0)}


@dataclass(frozen=True)
class Draft:
    """A draft of a question: `{word}` marks the words of the question that the answer depends on."""

    question: str
    reasoning: str
    answer: str
    evidence: tuple[Thing, ...]


def _where(scene: Scene, rng: random.Random) -> Draft | None:
    thing = rng.choice(scene.things)
    ask = rng.choice(("Where is the {%s} {%s}?", "In which cell is the {%s} {%s}?"))
    reasoning = f"The {thing.name} is in row {thing.row}. It is in column {thing.column}."
    return Draft(ask % (thing.colour, thing.shape), reasoning, thing.cell, (thing,))


def _at(scene: Scene, rng: random.Random) -> Draft | None:
    thing = rng.choice(scene.things)
    ask = rng.choice(("What is at row {%d} column {%d}?", "Name the shape at row {%d} column {%d}."))
    reasoning = f"The shape at {thing.cell} is a {thing.shape}. Its colour is {thing.colour}."
    return Draft(ask % (thing.row, thing.column), reasoning, thing.name, (thing,))


def _row(scene: Scene, rng: random.Random) -> Draft | None:
    filled = [r for r in range(1, scene.rows + 1) if 1 <= sum(t.row == r for t in scene.things) <= 3]
    if not filled:
        return None
    number = rng.choice(filled)
    found = [t for t in scene.things if t.row == number]
    ask = rng.choice(("Name the shapes in row {%d}.", "Which shapes are in row {%d}?"))
    reasoning = f"Row {number} holds: " + "; ".join(f"{t.name} at column {t.column}" for t in found) + "."
    return Draft(ask % number, reasoning, ", ".join(t.name for t in found), tuple(found))


def _exist(scene: Scene, rng: random.Random) -> Draft | None:
    """Whether there are things of a colour or shape. If there are none, the answer depends on all things."""
    kind = rng.choice(_TRAITS)
    yes = rng.random() < 0.5
    values = [v for v in (SHAPE_COLOURS if kind == "colour" else SHAPES) if bool(_with(scene, kind, v)) == yes]
    if not values:
        return None
    value = rng.choice(values)
    subject = PLURAL[value] if kind == "shape" else f"{value} shapes"
    ask = rng.choice(("Are there {%s}?", "Does the picture show {%s}?"))
    found = _with(scene, kind, value)
    listed = _list(found, "colour" if kind == "shape" else "shape") if yes else "not there"
    question = ask % (subject if kind == "shape" else value + "} {shapes")
    return Draft(question, f"The {subject} are: {listed}.", "yes" if yes else "no", tuple(found or scene.things))


def _count(scene: Scene, rng: random.Random) -> Draft | None:
    kind = rng.choice(_TRAITS)
    number = rng.randint(1, 4)
    values = [value for value, n in _tally(scene, kind).items() if n == number]
    if not values:
        return None
    value = rng.choice(sorted(values))
    ask = rng.choice(("How many {%s} are there?", "Count the {%s}."))
    found = _with(scene, kind, value)
    reasoning = _census(found, kind, value)
    question = ask % (PLURAL[value] if kind == "shape" else value + "} {shapes")
    return Draft(question, reasoning, str(number), tuple(found))


def _compare(scene: Scene, rng: random.Random) -> Draft | None:
    tally = _tally(scene, "shape")
    yes = rng.random() < 0.5
    pairs = sorted((a, b) for a in tally for b in tally if a != b and (tally[a] > tally[b]) == yes)
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    ask = rng.choice(("Are there more {%s} than {%s}?", "Do the {%s} outnumber the {%s}?"))
    groups = [_with(scene, "shape", shape) for shape in (first, second)]
    reasoning = " ".join(_census(g, "shape", s) for g, s in zip(groups, (first, second), strict=True))
    relation = "more than" if yes else "not more than"
    reasoning += f" {len(groups[0])} is {relation} {len(groups[1])}."
    return Draft(ask % (PLURAL[first], PLURAL[second]), reasoning, "yes" if yes else "no", (*groups[0], *groups[1]))


def _walk(scene: Scene, rng: random.Random, steps: int, read: bool = False) -> Draft | None:
    """From a named thing to the next one in a direction, `steps` times. With `read`, the things stay unnamed."""
    path, ways = [rng.choice(scene.things)], []
    for _ in range(steps):
        options = {way: nxt for way in DIRECTIONS if (nxt := _next(scene, path[-1], way)) and nxt not in path}
        if not options:
            return None
        ways.append(rng.choice(sorted(options)))
        path.append(options[ways[-1]])
    start = path[0]
    question = f"Start at the {{{start.colour}}} {{{start.shape}}}."
    reasoning = f"The {start.name} is at {start.cell}."
    for index, (way, thing) in enumerate(zip(ways, path[1:], strict=True)):
        marked = " ".join(f"{{{word}}}" if word != "of" else word for word in way.split())
        question += f" {'Then go' if index else 'Go'} to the next shape {marked} it."
        reasoning += f" The next shape {way} it is " + ("" if read else f"the {thing.name} ") + f"at {thing.cell}."
    question += " What is there?" if read else " What is it?"
    return Draft(question, reasoning, path[-1].name, tuple(path))


def _colour_read(scene: Scene, rng: random.Random) -> Draft | None:
    return _read_one(
        scene, rng, "shape", "colour", ("Find the only {%s} and name its colour.", "What colour is the {%s}?")
    )


def _shape_read(scene: Scene, rng: random.Random) -> Draft | None:
    asks = ("Find the only {%s} shape and say what it is.", "Which shape is {%s}?")
    return _read_one(scene, rng, "colour", "shape", asks)


TASKS: dict[str, Callable[[Scene, random.Random], Draft | None]] = {
    "where": _where,
    "at": _at,
    "row": _row,
    "exist": _exist,
    "count": _count,
    "compare": _compare,
    "walk1": lambda scene, rng: _walk(scene, rng, 1),
    "walk2": lambda scene, rng: _walk(scene, rng, 2),
    "walk3": lambda scene, rng: _walk(scene, rng, 3),
    "colour_read": _colour_read,
    "shape_read": _shape_read,
    "walk_read": lambda scene, rng: _walk(scene, rng, 2, read=True),
}


def _read_one(scene: Scene, rng: random.Random, given: _Trait, asked: _Trait, asks: Sequence[str]) -> Draft | None:
    """Locate the only thing with the `given` attribute, and read its `asked` attribute."""
    unique = [t for t in scene.things if len(_with(scene, given, getattr(t, given))) == 1]
    if not unique:
        return None
    thing = rng.choice(unique)
    value = getattr(thing, given)
    phrase = value if given == "shape" else f"{value} shape"
    reasoning = f"The {phrase} is in row {thing.row}. It is in column {thing.column}."
    return Draft(rng.choice(asks) % value, reasoning, getattr(thing, asked), (thing,))


def _tally(scene: Scene, kind: _Trait) -> dict[str, int]:
    values = SHAPE_COLOURS if kind == "colour" else SHAPES
    return {v: n for v in values if (n := len(_with(scene, kind, v)))}


def _with(scene: Scene, kind: _Trait, value: str) -> list[Thing]:
    return [t for t in scene.things if getattr(t, kind) == value]


def _list(things: Sequence[Thing], named_by: _Trait) -> str:
    return "; ".join(f"{getattr(t, named_by)} at {t.cell}" for t in things)


def _census(found: Sequence[Thing], kind: _Trait, value: str) -> str:
    subject = PLURAL[value] if kind == "shape" else f"{value} shapes"
    return f"The {subject} are: {_list(found, 'colour' if kind == 'shape' else 'shape')}. That makes {len(found)}."


def _next(scene: Scene, start: Thing, way: str) -> Thing | None:
    down, right = DIRECTIONS[way]
    ahead = [
        t
        for t in scene.things
        if (
            t.column == start.column and (t.row - start.row) * down > 0
            if down
            else t.row == start.row and (t.column - start.column) * right > 0
        )
    ]
    return min(ahead, key=lambda t: abs(t.row - start.row) + abs(t.column - start.column), default=None)
