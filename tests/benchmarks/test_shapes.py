"""The world: seeded, crowded, disjoint between splits, with evidence that is true by construction."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from vtrace.benchmarks.shapes.drawing import draw_scene
from vtrace.benchmarks.shapes.questions import PLURAL, TASKS
from vtrace.benchmarks.shapes.sample import ask_about, sample
from vtrace.benchmarks.shapes.scene import (
    SHAPE_COLOURS,
    SHAPES,
    SPLITS,
    WORLD,
    Scene,
    Thing,
    random_scene,
)


@pytest.fixture(scope="module")
def samples():
    return [sample(split, index) for split in SPLITS for index in range(60 * len(TASKS))]


def layout(scene):
    return (scene.rows, scene.columns, tuple((t.cell, t.name) for t in scene.things))


def test_the_same_seed_gives_the_same_sample():
    one, two = sample("test", 31), sample("test", 31)
    assert one == two
    assert one.image.tobytes() == two.image.tobytes()


def test_splits_share_no_scene(samples):
    seen = {split: {layout(s.scene) for s in samples if s.key.startswith(split)} for split in SPLITS}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["dev"]
    assert not seen["dev"] & seen["test"]
    assert all(s.scene.split == s.key.split("-")[0] for s in samples)


def test_pictures_are_crowded_and_full_of_distractors(samples):
    assert all(6 <= len(s.scene.things) <= 10 for s in samples)
    sharing = [
        any(t.colour == o.colour or t.shape == o.shape for o in s.scene.things if o is not t)
        for s in samples
        for t in s.scene.things
    ]
    assert np.mean(sharing) > 0.97


def test_several_sizes_and_aspect_ratios(samples):
    assert {(s.scene.rows, s.scene.columns) for s in samples} == set(WORLD.boards)
    assert len({s.image.size for s in samples[:200]}) == len({(c, r) for r, c in WORLD.boards})


def test_every_task_in_turn(samples):
    counts = Counter(s.task for s in samples)
    assert set(counts) == set(TASKS)
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("task", TASKS)
def test_no_answer_dominates(samples, task):
    answers = Counter(s.answer for s in samples if s.task == task)
    assert answers.most_common(1)[0][1] / answers.total() < 0.62


def test_reasoning_is_long_enough_to_have_steps(samples, pinhole):
    lengths = [len(pinhole.processor.tokenizer(s.response)["input_ids"]) for s in samples]
    assert max(lengths) > 80
    assert np.mean(lengths) > 35


@pytest.mark.parametrize("task", ["colour_read", "shape_read", "walk_read"])
def test_read_tasks_do_not_spell_the_answer_in_the_reasoning(samples, task):
    found = [s for s in samples if s.task == task]
    assert all(s.answer not in s.reasoning for s in found)


def test_evidence_words_are_words_of_the_question(samples):
    directions = {"right", "left", "above", "below"}
    vocabulary = {*SHAPE_COLOURS, *SHAPES, *PLURAL.values(), *directions, "shapes", *"12345"}
    for s in samples:
        words = [s.question[slice(*span)] for span in s.evidence_words]
        assert words, s.question
        assert set(words) <= vocabulary, s.question


def test_evidence_boxes_hold_the_things(samples):
    for s in samples[:100]:
        background = np.asarray(draw_scene(Scene(s.scene.rows, s.scene.columns, (), s.scene.background)), dtype=int)
        painted = np.abs(np.asarray(s.image, dtype=int) - background).sum(-1) > 45  # some stand out less than others
        for left, top, right, bottom in s.evidence_boxes:
            inside = painted[max(0, round(top)) : round(bottom), max(0, round(left)) : round(right)]
            assert inside.mean() > 0.2


@pytest.mark.parametrize("task", TASKS)
def test_answers_follow_from_the_evidence_alone(task):
    """A second, independent reading of the question gives the same answer, with and without everything else."""
    asked = 0
    for index in range(40):
        scene = random_scene(random.Random(index))
        item = ask_about(scene, task, random.Random(index))
        if item is None:
            continue
        asked += 1
        evidence = tuple(thing for thing in scene.things if thing.box in item.evidence_boxes)
        assert len(evidence) == len(set(item.evidence_boxes))
        for things in (scene.things, evidence):
            assert item.answer == answer_again(item.question, task, things), item.question
    assert asked >= 15


@pytest.mark.parametrize("task", ["where", "at", "count", "walk2", "colour_read", "shape_read"])
def test_answers_need_their_evidence(task):
    """Without the last piece of evidence, the same reading gives another answer or none."""
    for index in range(40):
        scene = random_scene(random.Random(index))
        item = ask_about(scene, task, random.Random(index))
        if item is None:
            continue
        rest = tuple(thing for thing in scene.things if thing.box != item.evidence_boxes[-1])
        try:
            found = answer_again(item.question, task, rest)
        except (StopIteration, ValueError):
            continue
        assert found != item.answer, item.question


def answer_again(question: str, task: str, things: tuple[Thing, ...]) -> str:
    words = question.rstrip("?.").split()
    match task.removesuffix("_read").rstrip("123"):
        case "where":
            return next(t.cell for t in things if t.name == " ".join(words[-2:]))
        case "at":
            return next(t.name for t in things if t.row == int(words[-3]) and t.column == int(words[-1]))
        case "row":
            return ", ".join(t.name for t in things if t.row == int(words[-1]))
        case "count" | "exist":
            wanted = attribute_of(question)
            number = sum(wanted in (t.colour, t.shape) for t in things)
            return str(number) if task == "count" else "yes" if number else "no"
        case "compare":
            first, second = (singular(word) for word in words if word in PLURAL.values())
            return "yes" if sum(t.shape == first for t in things) > sum(t.shape == second for t in things) else "no"
        case "colour":
            shape = next(word for word in words if word in SHAPES)
            return next(t.colour for t in things if t.shape == shape)
        case "shape":
            colour = next(word for word in words if word in SHAPE_COLOURS)
            return next(t.shape for t in things if t.colour == colour)
        case "walk":
            return end_of_walk(question, things)
    raise AssertionError(f"{task} is not read again")


def attribute_of(question: str) -> str:
    """The colour or shape that a question about "… shapes" or a plural asks for."""
    for frame in ("How many ", "Count the ", "Are there ", "Does the picture show ", " are there?", "?", "."):
        question = question.replace(frame, "")
    return question.removesuffix(" shapes") if question.endswith(" shapes") else singular(question)


def singular(plural: str) -> str:
    return next(shape for shape, many in PLURAL.items() if many == plural)


def end_of_walk(question: str, things: tuple[Thing, ...]) -> str:
    here = next(t for t in things if f"the {t.name}." in question)
    for sentence in question.split(". ")[1:]:
        direction = next((w for w in ("right", "left", "below", "above") if w in sentence), None)
        if direction is None:
            continue
        row, column = here.row, here.column
        ahead = {
            "right": [t for t in things if t.row == row and t.column > column],
            "left": [t for t in things if t.row == row and t.column < column],
            "below": [t for t in things if t.column == column and t.row > row],
            "above": [t for t in things if t.column == column and t.row < row],
        }[direction]
        here = min(ahead, key=lambda t: abs(t.row - row) + abs(t.column - column))
    return here.name
