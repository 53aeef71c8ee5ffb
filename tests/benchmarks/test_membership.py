"""What belongs to Shapes: all that its generator makes, and no photograph, drawing or question of another kind."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

import vtrace
from vtrace.benchmarks.shapes.membership import is_shapes_picture, is_shapes_question
from vtrace.benchmarks.shapes.sample import sample
from vtrace.benchmarks.shapes.scene import SPLITS
from vtrace.errors import InputError
from vtrace.report.documents import attribution_document, from_document
from vtrace.tracing.pictures import open_image

QUESTIONS = [  # the names of the photographs' motives are asked about, too: see below
    "What is on the table?",
    "Is it raining?",
    "Who is this?",
    "What colour is the cup?",
    "Where is the cat?",
    "How many people are there?",
    "Name the animals in row 2.",
    "Where is the pink star?",
    "What is at the red star?",
    "Describe the picture.",
    "",
]


def photographs() -> list[Path]:
    """The pictures that come with scikit-image. Its modules are not imported."""
    found = find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        return []
    folder = Path(found.submodule_search_locations[0]) / "data"
    return sorted(place for place in folder.iterdir() if place.suffix in (".png", ".jpg", ".gif", ".tif"))


@pytest.mark.slow
def test_nothing_of_500_examples_is_taken_for_foreign():
    for index in range(500):
        item = sample(SPLITS[index % 3], index)
        assert is_shapes_question(item.question), item.key
        assert is_shapes_picture(item.image), item.key


def test_no_photograph_is_taken_for_shapes_whatever_its_size():
    places = photographs()
    if not places:
        pytest.skip("there is no scikit-image, whose photographs are shown: pip install scikit-image")
    assert len(places) >= 29
    for place in places:
        try:
            image = open_image(place)
        except InputError:  # several frames, or a format that is not read: refused even earlier
            continue
        for size in (image.size, (256, 256), (320, 192), (192, 256)):
            assert not is_shapes_picture(image.resize(size)), f"{place.name} at {size}"
        assert not is_shapes_question(f"What is the {place.stem} made of?")


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_other_question_is_taken_for_one_of_shapes(question):
    assert not is_shapes_question(question)


@pytest.mark.parametrize("colour", ["white", "black", "grey", (208, 38, 44)])
def test_an_empty_board_is_foreign(colour):
    assert not is_shapes_picture(Image.new("RGB", (256, 256), colour))


def test_a_picture_that_was_saved_as_jpeg_still_belongs(tmp_path):
    image = sample("test", 7).image
    image.save(tmp_path / "a.jpg", quality=90)
    assert is_shapes_picture(open_image(tmp_path / "a.jpg"))


def test_an_embedded_model_says_that_it_is_a_toy_and_names_a_real_one(pinhole):
    photograph = Image.effect_noise((300, 200), 90).convert("RGB")
    trace = vtrace.trace(pinhole, photograph, "What is on the table?", response="A cup.\nFinal answer: cup")
    note = vtrace.attribute(pinhole, trace).warnings[0]
    assert note.startswith("pinhole is a toy. It knows only Shapes")
    assert "this picture and this question are not from there" in note
    assert note.endswith('vtrace explain PICTURE "QUESTION" --model Qwen/Qwen3-VL-4B-Instruct')


def test_in_its_own_world_it_says_nothing(attribution):
    assert attribution.warnings == []


def test_nothing_is_said_about_a_picture_that_was_not_saved(attribution):
    loaded = from_document(json.loads(json.dumps(attribution_document(attribution, whole=False))))
    assert not any("toy" in note for note in loaded.warnings)


def test_it_says_so_in_the_terminal_in_json_and_on_the_page(run, tmp_path):
    Image.effect_noise((300, 200), 90).convert("RGB").save(tmp_path / "photo.jpg")
    asked = ("explain", tmp_path / "photo.jpg", "What is on the table?", "--response", "Final answer: a cup")
    code, out, _ = run(*asked, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
    assert code == 0
    assert "pinhole is a toy" in out
    assert "pinhole is a toy" in (tmp_path / "a.html").read_text("utf-8")
    assert "pinhole is a toy" in json.loads((tmp_path / "a.json").read_text("utf-8"))["warnings"][0]


def test_another_model_says_nothing(random_lvlm, random_trace):
    assert not any("toy" in note for note in vtrace.attribute(random_lvlm, random_trace).warnings)
