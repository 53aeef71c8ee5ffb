"""Pinhole-SmolLM2: what it is trained with is exact, and the joined model looks at the picture."""

from __future__ import annotations

import json
import os

import pytest
import torch
from PIL import Image
from torch import nn
from transformers import LlamaConfig, LlamaModel

import vtrace
from support.real_parts import smollm2_cache
from vtrace.benchmarks.registry import shapes_example
from vtrace.benchmarks.shapes.membership import notes
from vtrace.benchmarks.shapes.questions import TASKS
from vtrace.benchmarks.shapes.sample import sample
from vtrace.benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES, TILED
from vtrace.faithfulness.evidence import evidence_positions, localisation
from vtrace.lvlm.joined import JOINED, TRAINED
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.pinhole.accuracy import answer_of, blank_like, respond
from vtrace.pinhole.card import joined_card, size_of, trained_parameters
from vtrace.pinhole.low_rank import LowRank, add_low_rank, changes
from vtrace.pinhole.packed_attention import PACKED, PackedRows, attending_within
from vtrace.pinhole.smollm2 import NAME, Parts, draw_tiles, prompt_beginning, what_tokens_show
from vtrace.tracing.defaults import SYSTEM_PROMPT
from vtrace.tracing.targets import find_target

FOLDER = JOINED[NAME].shipped


@pytest.fixture(scope="module")
def cache():
    """SmolLM2 from its package, for as long as this module runs."""
    before = os.environ.get("VTRACE_CACHE")
    os.environ["VTRACE_CACHE"] = str(smollm2_cache())
    yield
    os.environ.pop("VTRACE_CACHE")
    if before is not None:
        os.environ["VTRACE_CACHE"] = before


@pytest.fixture(scope="module")
def lvlm(cache):
    return vtrace.load(NAME, dtype="bfloat16")


def small_decoder() -> LlamaModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2,
    )  # fmt: skip
    return LlamaModel(config).eval()


@torch.no_grad()
def test_a_packed_question_is_computed_as_if_it_were_alone():
    decoder, prefix, lengths = small_decoder(), 5, (3, 4)
    x = torch.randn(2, prefix + sum(lengths), 24)
    where = torch.tensor([[[5, 6, 7, 11], [8, 9, 10, 11]]] * 2)
    back = torch.tensor([[0, 1, 2, 4, 5, 6, 7]] * 2)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8]] * 2)
    decoder.config._attn_implementation = PACKED
    with attending_within(PackedRows(prefix, where, back)):
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        packed = decoder(
            inputs_embeds=x, position_ids=positions, attention_mask=mask, use_cache=False
        ).last_hidden_state
    decoder.config._attn_implementation = "eager"
    for own in (slice(5, 8), slice(8, 12)):
        alone = torch.cat([x[:, :prefix], x[:, own]], dim=1)
        found = decoder(inputs_embeds=alone, use_cache=False).last_hidden_state
        torch.testing.assert_close(packed[:, own], found[:, prefix:], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(packed[:, :prefix], found[:, :prefix], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_changes_of_low_rank_begin_at_zero_and_are_what_is_saved():
    linear = nn.Linear(6, 4, bias=False)
    linear.weight.copy_(linear.weight.bfloat16())
    decoder = nn.ModuleDict({"proj": linear})
    add_low_rank(decoder)
    module, x = decoder["proj"], torch.randn(3, 6)
    assert isinstance(module, LowRank)
    module.frozen = module.frozen.float()
    torch.testing.assert_close(module(x), linear(x))
    module.up.normal_()
    (change,) = changes(decoder)
    assert change.name == "proj.weight"
    torch.testing.assert_close(module(x), x @ (linear.weight + change.up @ change.down).T)


def test_tokens_show_what_is_in_their_quarter_of_a_tile():
    scene = sample("dev", 4, TILED).scene
    shown = what_tokens_show(scene)
    assert len(shown) == 4 * (scene.rows * scene.columns + 1)
    assert len(draw_tiles(scene)) == scene.rows * scene.columns + 1
    found = {(int(colour), int(shape)) for colour, shape in shown} - {(len(SHAPE_COLOURS), len(SHAPES))}
    assert found == {(list(SHAPE_COLOURS).index(t.colour), SHAPES.index(t.shape)) for t in scene.things}


def test_it_is_small_enough_to_ship():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 15e6


def test_recorded_accuracy_meets_the_bar():
    tasks = json.loads((FOLDER / "accuracy.json").read_text())["tasks"]
    good = [task for task, row in tasks.items() if row["accuracy"] >= 0.85]
    assert len(good) >= 6
    for task in good:
        assert tasks[task]["blank"] <= tasks[task]["majority"] + 0.1, task


@pytest.mark.slow
def test_it_is_trained_on_the_prompts_and_pixels_of_its_processor(cache):
    parts = Parts()
    processor = parts.processor()
    for rows, columns in TILED.boards:
        size = (64 * columns, 64 * rows)
        item = next(s for s in (sample("dev", k, TILED) for k in range(100)) if s.scene.size == size)
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": item.question}]},
        ]
        text = processor.apply_chat_template(messages, add_generation_prompt=True)
        made = processor(text=text, images=[item.image], return_tensors="pt")
        after = f"{item.question}<|im_end|>\n<|im_start|>assistant\n"
        assert made["input_ids"][0].tolist() == parts.encode(prompt_beginning(rows, columns)) + parts.encode(after)
        torch.testing.assert_close(made["pixel_values"][0], draw_tiles(item.scene))


@pytest.mark.slow
def test_it_answers_with_the_picture_and_not_without(lvlm):
    easy = ("where", "at", "colour_read", "shape_read")
    items = [item for item in (sample("test", k, TILED) for k in range(48)) if item.task in easy]
    pictures = [item.image for item in items]

    def right(shown: list[Image.Image]) -> int:
        said = respond(lvlm.model, lvlm.processor, items, shown, limit=50)
        return sum(answer_of(text) == item.answer for text, item in zip(said, items, strict=True))

    assert right(pictures) >= 0.8 * len(items)
    assert right([blank_like(picture) for picture in pictures]) <= 0.4 * len(items)


@pytest.mark.slow
def test_ordered_paths_find_what_a_response_tells_of(lvlm):
    item = next(s for s in (sample("dev", k, TILED) for k in range(100)) if s.task == "at")
    trace = vtrace.trace(lvlm, shapes_example(item), response=item.response)
    patches = trace.positions("image")
    assert len(patches) == 4 * (item.scene.rows * item.scene.columns + 1)
    scores = run_method("vtrace-ordered", TraceSession.open(lvlm, trace), find_target(trace, "response")).scores
    evidence = evidence_positions(trace).image
    assert localisation(scores, patches, evidence)["auc"] > 0.7


@pytest.mark.slow
def test_it_says_that_it_is_a_toy(lvlm):
    picture = blank_like(sample("dev", 0).image)
    trace = vtrace.trace(lvlm, picture, "What is on the table?", response="A cup.")
    assert "pinhole-smollm2 is a toy" in notes(trace)[0]


@pytest.mark.slow
def test_the_card_states_what_was_measured(lvlm):
    log = [json.loads(line) for line in (FOLDER / "training-log.jsonl").read_text().splitlines()]
    recorded = json.loads((FOLDER / "accuracy.json").read_text())
    assert (FOLDER / "README.md").read_text() == joined_card(recorded, log, size_of(lvlm), trained_parameters(FOLDER))
    assert set(recorded["tasks"]) == set(TASKS)
    assert (FOLDER / TRAINED).stat().st_size < 15e6
