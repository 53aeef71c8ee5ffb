"""The world: seeded, crowded, disjoint between splits, with evidence that is true by construction."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from vtrace.benchmarks.shapes.questions import TASKS
from vtrace.benchmarks.shapes.sample import ask_about, sample
from vtrace.benchmarks.shapes.scene import SHAPE_COLOURS, SPLITS, WORLD, Scene, draw_scene, random_scene


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
        for s in samples for t in s.scene.things
    ]  # fmt: skip
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
    vocabulary = {
        *SHAPE_COLOURS,
        "circle",
        "square",
        "triangle",
        "star",
        "cross",
        "right",
        "left",
        "above",
        "below",
        "shapes",
    }
    for s in samples:
        for a, b in s.evidence_words:
            word = s.question[a:b]
            assert (
                word in vocabulary
                or word.isdigit()
                or word.rstrip("s").removesuffix("e") in vocabulary | {"cross", "circl", "squar", "triangl"}
            )


def test_evidence_boxes_hold_the_things(samples):
    for s in samples[:100]:
        background = np.asarray(draw_scene(Scene(s.scene.rows, s.scene.columns, (), s.scene.background)), dtype=int)
        painted = np.abs(np.asarray(s.image, dtype=int) - background).sum(-1) > 45  # some stand out less than others
        for left, top, right, bottom in s.evidence_boxes:
            inside = painted[max(0, round(top)) : round(bottom), max(0, round(left)) : round(right)]
            assert inside.mean() > 0.2


@pytest.mark.parametrize("task", ["where", "at", "count", "exist", "walk2", "colour_read", "compare"])
def test_answers_follow_from_the_evidence_alone(task):
    """Removing a thing that is not evidence leaves the answer; the same question asked again agrees."""
    for index in range(40):
        rng = random.Random(index)
        scene = random_scene(rng)
        item = ask_about(scene, task, random.Random(index))
        if item is None:
            continue
        boxes = set(item.evidence_boxes)
        assert boxes <= {t.box for t in scene.things}
        assert item.answer == answer_again(item, scene), item.question


def attribute(question):
    """The colour or shape that a question about "… shapes" or a plural asks for."""
    for frame in ("How many ", "Count the ", "Are there ", "Does the picture show ", " are there?", "?", "."):
        question = question.replace(frame, "")
    return question.removesuffix(" shapes").removesuffix("es" if question.startswith("cross") else "s")


def answer_again(item, scene):
    """Answer from the scene by a second, independent reading of the question."""
    words = item.question.rstrip("?.").split()
    things = scene.things
    if item.task == "where":
        return next(t.cell for t in things if t.name == " ".join(words[-2:]))
    if item.task == "at":
        return next(t.name for t in things if t.row == int(words[-3]) and t.column == int(words[-1]))
    if item.task in ("count", "exist"):
        key = attribute(item.question)
        number = sum(key in (t.colour, t.shape) for t in things)
        return str(number) if item.task == "count" else "yes" if number else "no"
    if item.task == "colour_read":
        shape = next(w for w in words if w in {t.shape for t in things})
        return next(t.colour for t in things if t.shape == shape)
    if item.task == "compare":
        plural = [w for w in words if w.rstrip("s") in {"circle", "square", "triangle", "star"} or w == "crosses"]
        first, second = (p.removesuffix("es") if p == "crosses" else p.removesuffix("s") for p in plural)
        return "yes" if sum(t.shape == first for t in things) > sum(t.shape == second for t in things) else "no"
    start = next(t for t in things if f"the {t.name}." in item.question)
    for sentence in item.question.split(". ")[1:3]:
        row, column = start.row, start.column
        ahead = {
            "right": [t for t in things if t.row == row and t.column > column],
            "left": [t for t in things if t.row == row and t.column < column],
            "below": [t for t in things if t.column == column and t.row > row],
            "above": [t for t in things if t.column == column and t.row < row],
        }[next(w for w in ("right", "left", "below", "above") if w in sentence)]
        start = min(ahead, key=lambda t: abs(t.row - row) + abs(t.column - column))
    return start.name
