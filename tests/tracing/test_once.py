"""Nothing is done twice: a picture is opened once, and template and processor run once per trace."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import Counter

import pytest
from PIL import Image, ImageOps
from transformers import ProcessorMixin, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

import vtrace
from vtrace.tracing import blurred_pixels


@pytest.fixture
def calls(monkeypatch) -> Counter[str]:
    """How often pictures are opened and decoded, and template, processor and vision tower run."""
    counts: Counter[str] = Counter()

    def count(place, name, label):
        function = getattr(place, name)

        def counted(*args, **kwargs):
            counts[label] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(place, name, counted)

    count(Image, "open", "opened")
    count(ImageOps, "exif_transpose", "decoded")
    count(ProcessorMixin, "apply_chat_template", "template")
    count(Qwen3VLProcessor, "__call__", "processor")
    count(Qwen3VLForConditionalGeneration, "generate", "generated")
    return counts


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    vtrace.example("dev-3").images[0].save(path)
    return path


def test_explaining_a_picture(run, calls, picture):
    code, _, err = run("explain", picture, "Where is the red star?", "--json", picture.with_suffix(".json"))
    assert code == 0, err
    assert calls == {"opened": 1, "decoded": 1, "template": 1, "processor": 1, "generated": 1}


def test_explaining_it_again_for_other_targets_and_methods(pinhole, calls, picture):
    trace = vtrace.trace(pinhole, picture, "Where is the red star?")
    vtrace.attribute(pinhole, trace, "answer")
    vtrace.attribute(pinhole, trace, "reasoning", calibrate=False)
    vtrace.compare(pinhole, trace, ["ifr", "gradient"], "answer")
    assert calls == {"opened": 1, "decoded": 1, "template": 1, "processor": 1, "generated": 1}


def test_a_perturbed_picture_is_processed_once_and_rendered_never(pinhole, calls, picture, monkeypatch):
    """Two methods perturb the picture; the processor runs a second time, on the blurred copy, and no more."""
    trace = vtrace.trace(pinhole, picture, "Where is the red star?")
    built = []
    monkeypatch.setattr(
        blurred_pixels,
        "blur",
        lambda images, radius, plain=blurred_pixels.blur: built.append(radius) or plain(images, radius),
    )
    vtrace.compare(pinhole, trace, ["loo", "reagent"], "answer", options={"reagent": {"steps": 1, "probes": 1}})
    assert len(built) == 1
    assert (calls["template"], calls["processor"]) == (1, 2)


def test_another_model_or_another_picture_is_processed_anew(pinhole, calls, picture):
    """What is kept belongs to one processor and one picture."""
    trace = vtrace.trace(pinhole, picture, "Where is the red star?")
    other = dataclasses.replace(trace, images=tuple(ImageOps.mirror(image) for image in trace.images))
    vtrace.attribute(pinhole, other, "answer", calibrate=False)
    assert calls["processor"] == 2


def test_a_copy_for_another_process_leaves_out_what_can_be_made_again(pinhole, trace):
    sent = pickle.loads(pickle.dumps(trace))
    assert trace.processed is not None
    assert sent.processed is None
    assert (sent.ids, sent.words, sent.patches) == (trace.ids, trace.words, trace.patches)
    assert copy.deepcopy(trace).processed is None
