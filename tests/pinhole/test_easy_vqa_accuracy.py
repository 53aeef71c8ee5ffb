"""Accuracy of an embedded model on easy-VQA: counted by group, with and without the picture."""

from __future__ import annotations

import json

import pytest

from support.dataset_files import png
from vtrace.benchmarks.registry import find_benchmark
from vtrace.pinhole import easy_vqa_accuracy
from vtrace.pinhole.easy_vqa_accuracy import measure_easy_vqa

ITEMS = [
    ["is there a red shape?", "yes", 0],
    ["is there a blue shape?", "no", 0],
    ["what shape is it?", "rectangle", 0],
    ["what colour is it?", "red", 0],
    ["what colour is shown?", "red", 0],
    ["what colour is the shape?", "blue", 0],
]


@pytest.fixture
def examples(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.png").write_bytes(png(size=(64, 64)))
    (tmp_path / "questions.json").write_text(json.dumps(ITEMS))
    return [find_benchmark("easy-vqa", tmp_path).example(number) for number in range(len(ITEMS))]


def test_verdicts_are_counted_by_group(monkeypatch, examples):
    said = ["yes", "yes", "circle", "red", "blue", None]
    blank = ["no", "no", "circle", "blue", "blue", "blue"]

    def respond(model, processor, part, pictures, limit):
        grey = pictures[0].getpixel((0, 0)) == (160, 160, 160)
        return [f"I see.\nFinal answer: {word}" if word else "I see." for word in (blank if grey else said)]

    reported = []
    monkeypatch.setattr(easy_vqa_accuracy, "respond", respond)
    found = measure_easy_vqa(None, None, examples, lambda done, total, label="": reported.append((done, total)))
    third = pytest.approx(1 / 3)
    assert found == {
        "named, a word of Shapes": dict(
            items=3, accuracy=third, blank=third, majority=pytest.approx(2 / 3), unparsed=third
        ),
        "named, another word": dict(items=1, accuracy=0, blank=0, majority=1, unparsed=0),
        "yes or no": dict(items=2, accuracy=0.5, blank=0.5, majority=0.5, unparsed=0),
    }
    assert reported == [(6, 6)]


def test_the_embedded_model_sees_the_red_picture_and_not_the_blank_one(pinhole, examples):
    found = measure_easy_vqa(pinhole.model, pinhole.processor, examples[3:4])
    assert found == {"named, a word of Shapes": dict(items=1, accuracy=1, blank=0, majority=1, unparsed=0)}
