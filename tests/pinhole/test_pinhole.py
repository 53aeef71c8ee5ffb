"""The embedded models: of the real classes, trained, and reliant on the picture."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest
import torch

import vtrace
from vtrace.benchmarks.shapes.questions import TASKS
from vtrace.benchmarks.shapes.sample import sample
from vtrace.benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES
from vtrace.lvlm.checkpoint_source import EMBEDDED
from vtrace.pinhole.accuracy import answer_of, measure_accuracy, respond
from vtrace.pinhole.card import card, size_of
from vtrace.pinhole.muon import Muon, orthogonalise
from vtrace.pinhole.objectives import Reasoner, Seer
from vtrace.pinhole.train import RECIPES, run_stage
from vtrace.pinhole.training_batches import IGNORE, Packer, training_scenes, vision_labels


@pytest.fixture(scope="module", params=list(EMBEDDED))
def lvlm(request):
    return vtrace.load(request.param)


@pytest.fixture
def folder(lvlm):
    return EMBEDDED[lvlm.name]


@pytest.fixture
def recipe(lvlm):
    return RECIPES[lvlm.name]


@pytest.fixture
def recorded(folder):
    return json.loads((folder / "accuracy.json").read_text())


def test_it_is_of_the_class_of_its_big_siblings(pinhole):
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    assert type(pinhole.model) is Qwen3VLForConditionalGeneration
    assert isinstance(pinhole.processor, Qwen3VLProcessor)
    text = pinhole.model.config.text_config
    assert text.num_hidden_layers >= 8
    assert text.num_key_value_heads < text.num_attention_heads
    assert len(pinhole.model.config.vision_config.deepstack_visual_indexes) == 2
    assert text.rope_parameters["mrope_section"] == [6, 5, 5]
    assert hasattr(pinhole.seam.decoder.layers[0].self_attn, "q_norm")


def test_the_second_recipe_is_of_another_family(tmp_path):
    """Pinhole-InternVL before training: the real classes, tiles and a thumbnail."""
    from transformers import InternVLForConditionalGeneration, InternVLProcessor

    from vtrace.pinhole.build import save_checkpoint

    recipe = RECIPES["pinhole-internvl"]
    tokenizer = recipe.tokenizer()
    save_checkpoint(recipe.build(tokenizer), recipe.processor(tokenizer), tmp_path)
    other = vtrace.load(tmp_path)
    assert type(other.model) is InternVLForConditionalGeneration
    assert isinstance(other.processor, InternVLProcessor)
    item = sample("dev", 4)
    told = vtrace.trace(other, item.image, item.question, response=item.response)
    assert told.panels == [(0, 0), (0, 1)]
    assert len(told.patches) == 4 * (item.scene.rows * item.scene.columns + 1)


def test_it_is_small_enough_to_ship(folder):
    assert sum(file.stat().st_size for file in folder.iterdir()) < 25e6


def test_recorded_accuracy_meets_the_bar(recorded):
    tasks = recorded["tasks"]
    assert set(tasks) == set(TASKS)
    assert recorded["per_task"] >= 200
    assert np.mean([row["accuracy"] for row in tasks.values()]) >= 0.94
    for task, row in tasks.items():
        assert row["accuracy"] >= 0.85, task
        assert row["blank"] <= row["majority"] + 0.08, task


@pytest.mark.slow
def test_measured_accuracy_is_what_is_recorded(lvlm, recorded):
    """A quick look at the same questions; the full table takes minutes: python -m vtrace.pinhole.accuracy."""
    found = measure_accuracy(lvlm.model, lvlm.processor, "test", per_task=12)
    assert found["mean"] == pytest.approx(recorded["mean"], abs=0.05)
    blank = np.mean([row["blank"] for row in found["tasks"].values()])
    assert blank == pytest.approx(np.mean([row["blank"] for row in recorded["tasks"].values()]), abs=0.08)


def test_the_card_states_what_was_measured(lvlm, folder, recipe, recorded):
    log = [json.loads(line) for line in (folder / "training-log.jsonl").read_text().splitlines()]
    assert (folder / "README.md").read_text() == card(recipe, recorded, log, size_of(lvlm))


def test_it_is_not_driven_into_saturation(pinhole):
    """Likelihoods stay off the ceiling: the mean probability of its own words is below 0.995."""
    found = vtrace.attribute(pinhole, vtrace.trace(pinhole, vtrace.example()))
    assert found.likelihoods is not None
    assert np.exp(found.likelihoods[0]).mean() < 0.995


def test_every_word_of_the_world_is_one_token_and_every_number_a_blank_and_a_digit(lvlm):
    tokenizer = lvlm.processor.tokenizer
    found = set()
    for index in range(10 * len(TASKS)):
        item = sample("dev", index)
        found |= set(re.findall(r" ?[A-Za-z]+| ?[0-9]+", f"{item.question}\n{item.response}"))
    assert {word.strip() for word in found} >= {*SHAPE_COLOURS, *SHAPES, *"1234", "row", "column", "Final", "answer"}
    for word in found:
        pieces = [tokenizer.decode([token]) for token in tokenizer(word, add_special_tokens=False)["input_ids"]]
        assert pieces == ([word] if word.strip().isalpha() else list(word))


def test_other_text_is_covered_by_bytes(pinhole):
    tokenizer = pinhole.processor.tokenizer
    text = "Ünïcode 🙂 天 <tag> \\frac"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_training_pixels_are_the_processors(lvlm, recipe):
    item = sample("dev", 4)
    text = lvlm.processor.apply_chat_template([{"role": "user", "content": [{"type": "image"}]}])
    inputs = lvlm.processor(text=[text], images=[item.image], return_tensors="pt")
    for name, drawn in recipe.draw([item.scene]).items():
        torch.testing.assert_close(drawn, inputs[name], rtol=0, atol=1e-5)


def test_what_the_tower_learns_is_where_the_processor_puts_it(lvlm, recipe):
    """Labels of visual tokens, in token order, say what stands in the box of each patch."""
    item = sample("dev", 4)
    told = vtrace.trace(lvlm, item.image, item.question, response=item.response)
    labels = recipe.in_token_order(vision_labels([item.scene]))[0]
    assert len(labels) == len(told.patches)
    seen = []
    for patch, label in zip(told.patches, labels.tolist(), strict=True):
        left, top, right, bottom = patch.box
        inside = [t for t in item.scene.things if left <= t.x < right and top <= t.y < bottom]
        if patch.view:  # a thumbnail
            assert label[:2] == [IGNORE, IGNORE]
        elif inside:
            assert label[:2] == [list(SHAPE_COLOURS).index(inside[0].colour), SHAPES.index(inside[0].shape)]
            seen += inside
        else:
            assert label[:2] == [len(SHAPE_COLOURS), len(SHAPES)]
    assert sorted(t.name for t in seen) == sorted(t.name for t in item.scene.things)


def test_packed_questions_are_computed_as_if_alone(lvlm, recipe):
    """The loss on packed questions equals that of the same questions through the public interface."""
    packer, rng = Packer(recipe, lvlm.processor.tokenizer, per_image=3), random.Random(5)
    shown = training_scenes(rng, 2, (6, 10), recipe.stages[-1].world)
    asked = []
    original = packer.questions
    packer.questions = lambda *a: asked.append(original(*a)) or asked[-1]
    batch = packer.pack(shown, rng, {})
    core = lvlm.model.model
    with torch.no_grad():
        seen, others = recipe.see(lvlm.model, batch.pixels)
        image = batch.ids == packer.image
        others |= {recipe.mark_image: image} if recipe.mark_image else {}
        embeds = core.language_model.embed_tokens(batch.ids).masked_scatter(image[..., None], seen)
        positions = batch.positions if len(batch.positions) > 1 else batch.positions[0]
        hidden = core.language_model(
            inputs_embeds=embeds, position_ids=positions, attention_mask=batch.mask, **others
        ).last_hidden_state
    for row, items in enumerate(asked):
        logits = lvlm.model.lm_head(hidden[row][batch.labels[row] != IGNORE]).log_softmax(-1)
        labels = batch.labels[row][batch.labels[row] != IGNORE]
        packed = logits.gather(1, labels[:, None])[:, 0].double()
        alone = []
        for item in items:
            told = vtrace.trace(lvlm, item.image, item.question, response=item.response)
            alone.append(torch.from_numpy(vtrace.attribute(lvlm, told).likelihoods[0]))
        torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-3, atol=1e-3)


def test_generation_goes_through_the_public_interface(pinhole):
    items = [sample("test", index) for index in range(2)]
    responses = respond(pinhole.model, pinhole.processor, items, [item.image for item in items])
    single = vtrace.trace(pinhole, items[1].image, items[1].question)
    assert responses[1] == single.response
    assert answer_of(responses[1]) == single.answer_text


def test_muon_updates_are_nearly_orthogonal():
    torch.manual_seed(0)
    for shape in ((3, 24, 40), (3, 40, 24)):
        found = orthogonalise(torch.randn(shape))
        assert found.shape == shape
        values = torch.linalg.svdvals(found)
        assert values.min() > 0.6
        assert values.max() < 1.3


def test_muon_gives_the_same_for_matrices_together_and_one_by_one():
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in ((6, 4), (6, 4), (4, 4))]
    grads = [torch.randn_like(weight) for weight in start]

    def stepped(weights: list[torch.Tensor], grads: list[torch.Tensor]) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(weight.clone()) for weight in weights]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad.clone()
        optimiser = Muon(parameters, lr=0.1, weight_decay=0.1)
        optimiser.step()
        optimiser.step()  # now with momentum
        return [parameter.detach() for parameter in parameters]

    together = stepped(start, grads)
    alone = [stepped([weight], [grad])[0] for weight, grad in zip(start, grads, strict=True)]
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    for before, after, grad in zip(start, together, grads, strict=True):
        update = before * 0.99**2 - after
        assert (update * grad).sum() > 0, "downhill"


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_an_interrupted_training_run_resumes_with_the_same_result(tmp_path, monkeypatch, name):
    from dataclasses import replace

    from vtrace.pinhole import train

    monkeypatch.setattr(train, "SAVE_EVERY", 1)
    recipe = RECIPES[name]
    tokenizer = recipe.tokenizer()
    stages = [replace(recipe.stages[k], steps=3, images=2) for k in (0, -1)]

    def run(folder, stop_at=None):
        torch.manual_seed(0)
        model = recipe.build(tokenizer)
        seer = Seer(model, recipe, recipe.stages[0].world)

        def every(step):
            if step == stop_at:
                raise KeyboardInterrupt
            return {}

        folder.mkdir(exist_ok=True)
        run_stage(stages[0], seer, folder, 3, every)
        whole = Reasoner(model, seer, Packer(recipe, tokenizer, 2), stages[1])
        run_stage(stages[1], whole, folder, 3, lambda step: {})
        return torch.cat([p.detach().flatten() for p in whole.parameters()])

    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", stop_at=2)
    torch.testing.assert_close(run(tmp_path / "broken"), whole, rtol=0, atol=0)
    assert len((tmp_path / "broken" / "log.jsonl").read_text().splitlines()) == 2
