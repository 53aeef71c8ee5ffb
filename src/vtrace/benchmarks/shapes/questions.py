"""Questions about a scene, with gold reasoning, the answer, and the evidence it depends on.

Each task is one small function from a scene to a `Draft`, or None when the scene does not admit
such a question. Tasks that end in `_read` reason only about *where* to look; what is there is
named for the first time in the answer, so the answer has to be read from the picture.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...types import Span
from .scene import COLOURS, SHAPES, Scene, Thing

ANSWER_MARK = "Final answer:"
PLURAL = {shape: shape + ("es" if shape.endswith("s") else "s") for shape in SHAPES}
STEPS = {"right of": (0, 1), "left of": (0, -1), "below": (1, 0), "above": (-1, 0)}


@dataclass(frozen=True)
class Draft:
    """A question in the making: `{word}` marks the words of the question that the answer depends on."""

    question: str
    reasoning: str
    answer: str
    evidence: tuple[Thing, ...]


def where(scene: Scene, rng: random.Random) -> Draft | None:
    thing = rng.choice(scene.things)
    ask = rng.choice(("Where is the {%s} {%s}?", "In which cell is the {%s} {%s}?"))
    reasoning = f"The {thing.name} is in row {thing.row}. It is in column {thing.column}."
    return Draft(ask % (thing.colour, thing.shape), reasoning, thing.cell, (thing,))


def at(scene: Scene, rng: random.Random) -> Draft | None:
    thing = rng.choice(scene.things)
    ask = rng.choice(("What is at row {%d} column {%d}?", "Name the shape at row {%d} column {%d}."))
    reasoning = f"The shape at {thing.cell} is a {thing.shape}. Its colour is {thing.colour}."
    return Draft(ask % (thing.row, thing.column), reasoning, thing.name, (thing,))


def row(scene: Scene, rng: random.Random) -> Draft | None:
    filled = [r for r in range(1, scene.rows + 1) if 1 <= sum(t.row == r for t in scene.things) <= 3]
    if not filled:
        return None
    number = rng.choice(filled)
    found = [t for t in scene.things if t.row == number]
    ask = rng.choice(("Name the shapes in row {%d}.", "Which shapes are in row {%d}?"))
    reasoning = f"Row {number} holds: " + "; ".join(f"{t.name} at column {t.column}" for t in found) + "."
    return Draft(ask % number, reasoning, ", ".join(t.name for t in found), tuple(found))


def exist(scene: Scene, rng: random.Random) -> Draft | None:
    """Some things of a colour or shape, or none at all: then the answer depends on everything there is."""
    kind = rng.choice(("colour", "shape"))
    yes = rng.random() < 0.5
    values = [v for v in (COLOURS if kind == "colour" else SHAPES) if bool(_with(scene, kind, v)) == yes]
    if not values:
        return None
    value = rng.choice(values)
    subject = PLURAL[value] if kind == "shape" else f"{value} shapes"
    ask = rng.choice(("Are there {%s}?", "Does the picture show {%s}?"))
    found = _with(scene, kind, value)
    listed = _list(found, "colour" if kind == "shape" else "shape") if yes else "not there"
    question = ask % (subject if kind == "shape" else value + "} {shapes")
    return Draft(question, f"The {subject} are: {listed}.", "yes" if yes else "no", tuple(found or scene.things))


def count(scene: Scene, rng: random.Random) -> Draft | None:
    kind = rng.choice(("colour", "shape"))
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


def compare(scene: Scene, rng: random.Random) -> Draft | None:
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


def walk(scene: Scene, rng: random.Random, steps: int, read: bool = False) -> Draft | None:
    """From a named thing to the next one in a direction, `steps` times; `read` leaves the things unnamed."""
    path, ways = [rng.choice(scene.things)], []
    for _ in range(steps):
        options = {way: nxt for way in STEPS if (nxt := _next(scene, path[-1], way)) and nxt not in path}
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


def colour_read(scene: Scene, rng: random.Random) -> Draft | None:
    return _read_one(
        scene, rng, "shape", "colour", ("Find the only {%s} and name its colour.", "What colour is the {%s}?")
    )


def shape_read(scene: Scene, rng: random.Random) -> Draft | None:
    asks = ("Find the only {%s} shape and say what it is.", "Which shape is {%s}?")
    return _read_one(scene, rng, "colour", "shape", asks)


TASKS: dict[str, Callable[[Scene, random.Random], Draft | None]] = {
    "where": where,
    "at": at,
    "row": row,
    "exist": exist,
    "count": count,
    "compare": compare,
    "walk1": lambda scene, rng: walk(scene, rng, 1),
    "walk2": lambda scene, rng: walk(scene, rng, 2),
    "walk3": lambda scene, rng: walk(scene, rng, 3),
    "colour_read": colour_read,
    "shape_read": shape_read,
    "walk_read": lambda scene, rng: walk(scene, rng, 2, read=True),
}


def unmark(question: str) -> tuple[str, tuple[Span, ...]]:
    """The question without its marks, and the character spans of the marked words."""
    text, spans, start = "", [], 0
    for character in question:
        if character == "{":
            start = len(text)
        elif character == "}":
            spans.append(Span(start, len(text)))
        else:
            text += character
    return text, tuple(spans)


def _read_one(scene: Scene, rng: random.Random, given: str, asked: str, asks: Sequence[str]) -> Draft | None:
    """One thing is the only one of its `given` attribute; locate it, and read off the `asked` one."""
    unique = [t for t in scene.things if len(_with(scene, given, getattr(t, given))) == 1]
    if not unique:
        return None
    thing = rng.choice(unique)
    value = getattr(thing, given)
    phrase = value if given == "shape" else f"{value} shape"
    reasoning = f"The {phrase} is in row {thing.row}. It is in column {thing.column}."
    return Draft(rng.choice(asks) % value, reasoning, getattr(thing, asked), (thing,))


def _tally(scene: Scene, kind: str) -> dict[str, int]:
    values = COLOURS if kind == "colour" else SHAPES
    return {v: n for v in values if (n := len(_with(scene, kind, v)))}


def _with(scene: Scene, kind: str, value: str) -> list[Thing]:
    return [t for t in scene.things if getattr(t, kind) == value]


def _list(things: Sequence[Thing], named_by: str) -> str:
    return "; ".join(f"{getattr(t, named_by)} at {t.cell}" for t in things)


def _census(found: Sequence[Thing], kind: str, value: str) -> str:
    subject = PLURAL[value] if kind == "shape" else f"{value} shapes"
    return f"The {subject} are: {_list(found, 'colour' if kind == 'shape' else 'shape')}. That makes {len(found)}."


def _next(scene: Scene, start: Thing, way: str) -> Thing | None:
    down, right = STEPS[way]
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
