"""Questions about a few facts of one kind, with the evidence they depend on and what could be mistaken for it.

Facts say what things are called. One step leads from the thing that is asked about to its name. Two
steps are needed if the question says only where the thing is.

The names and the wording were chosen on the dev split so that a model of 135M parameters answers more than half of the
questions: it cannot keep apart who lives where, for instance, but it can tell what a ship and a street are called.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

THINGS = ("boat", "cat", "dog", "doll", "horse", "hotel", "river", "robot", "school", "ship", "street", "village")
MOVABLES = ("boat", "cat", "cow", "dog", "doll", "horse", "parrot", "robot")
NAMES = ("Bella", "Coco", "Lola", "Luna", "Max", "Milo", "Oscar", "Rex", "Ruby", "Toby")
PLACES = ("barn", "cellar", "field", "garage", "garden", "hall", "kitchen", "yard")
ONE_STEP_THINGS, TWO_STEP_THINGS = 4, 2  # a movable thing has two facts, so there are always four


@dataclass(frozen=True)
class FactDraft:
    """`{word}` marks what the answer depends on, `[word]` what could be mistaken for it."""

    question: str
    answer: str
    names: tuple[str, ...]  # what could be the answer


def _one_step(rng: random.Random) -> FactDraft:
    things, names = rng.sample(THINGS, ONE_STEP_THINGS), rng.sample(NAMES, ONE_STEP_THINGS)
    stated = [_state("The %s is called %s.", *fact) for fact in enumerate(zip(things, names, strict=True))]
    return _draft(rng, stated, f"What is the {{{things[0]}}} called?", names)


def _two_steps(rng: random.Random) -> FactDraft:
    things, names, places = (rng.sample(words, TWO_STEP_THINGS) for words in (MOVABLES, NAMES, PLACES))
    stated = [_state("The %s is called %s.", *fact) for fact in enumerate(zip(things, names, strict=True))]
    stated += [_state("The %s is in the %s.", *fact) for fact in enumerate(zip(things, places, strict=True))]
    return _draft(rng, stated, f"What is the one in the {{{places[0]}}} called?", names)


def _state(fact: str, number: int, words: tuple[str, str]) -> str:
    """A fact with its words marked: the first thing is the one that is asked about."""
    return fact % tuple(f"[{word}]" if number else f"{{{word}}}" for word in words)


def _draft(rng: random.Random, stated: list[str], asked: str, names: list[str]) -> FactDraft:
    """The facts in random order, and then the question, whose answer is the first name."""
    rng.shuffle(stated)
    return FactDraft(" ".join([*stated, asked]), names[0], tuple(names))


FACT_TASKS: dict[str, Callable[[random.Random], FactDraft]] = {"one step": _one_step, "two steps": _two_steps}
