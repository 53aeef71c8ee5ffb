"""The embedded model: of the real class, really trained, really looking."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import vtrace
from vtrace.benchmarks.shapes import TASKS, sample
from vtrace.lvlm import EMBEDDED
from vtrace.pinhole.accuracy import answer_of, measure, respond
from vtrace.pinhole.card import card
from vtrace.pinhole.muon import Muon, orthogonalise
from vtrace.pinhole.pack import IGNORE, Packer, draw, patchify, scenes

FOLDER = EMBEDDED["pinhole"]


@pytest.fixture(scope="module")
def recorded():
    return json.loads((FOLDER / "accuracy.json").read_text())


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


def test_it_is_small_enough_to_ship():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 25e6


def test_recorded_accuracy_meets_the_bar(recorded):
    tasks = recorded["tasks"]
    assert set(tasks) == set(TASKS)
    assert recorded["per_task"] >= 200
    assert np.mean([row["accuracy"] for row in tasks.values()]) >= 0.94
    for task, row in tasks.items():
        assert row["accuracy"] >= 0.85, task
        assert row["blank"] <= row["majority"] + 0.08, task


def test_measured_accuracy_is_what_is_recorded(pinhole, recorded):
    """A quick look at the same questions; the full table takes minutes: python -m vtrace.pinhole.accuracy."""
    found = measure(pinhole.model, pinhole.processor, "test", per_task=12)
    assert found["mean"] == pytest.approx(recorded["mean"], abs=0.05)
    blank = np.mean([row["blank"] for row in found["tasks"].values()])
    assert blank == pytest.approx(np.mean([row["blank"] for row in recorded["tasks"].values()]), abs=0.08)


def test_the_card_states_what_was_measured(pinhole, recorded):
    log = [json.loads(line) for line in (FOLDER / "training-log.jsonl").read_text().splitlines()]
    sizes = [sum(p.numel() for p in module.parameters()) for module in (pinhole.seam.decoder, pinhole.model)]
    assert (FOLDER / "README.md").read_text() == card(recorded, log, *sizes)


def test_it_is_not_driven_into_saturation(pinhole):
    """Likelihoods stay off the ceiling: the mean probability of its own words is below 0.995."""
    found = vtrace.attribute(pinhole, vtrace.trace(pinhole, vtrace.example()))
    assert found.likelihoods is not None
    assert np.exp(found.likelihoods[0]).mean() < 0.995


def test_every_word_of_the_world_is_one_token(pinhole):
    tokenizer = pinhole.processor.tokenizer
    for index in range(len(TASKS)):
        item = sample("dev", index)
        words = item.reasoning.replace(".", " ").replace(";", " ").replace(":", " ").split()
        assert all(len(tokenizer(f" {w}", add_special_tokens=False)["input_ids"]) <= 2 for w in words)


def test_other_text_is_covered_by_bytes(pinhole):
    tokenizer = pinhole.processor.tokenizer
    text = "Ünïcode 🙂 天 <tag> \\frac"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_training_pixels_are_the_processors(pinhole):
    item = sample("dev", 4)
    inputs = pinhole.processor.image_processor(images=[item.image], return_tensors="pt")
    torch.testing.assert_close(patchify([np.asarray(item.image)]), inputs["pixel_values"], rtol=0, atol=1e-5)
    assert draw([item.scene])[1].tolist() == inputs["image_grid_thw"].tolist()


def test_packed_questions_are_computed_as_if_alone(pinhole):
    """Logits of every packed question equal those of the same question through the public interface."""
    import random

    tokenizer, model = pinhole.processor.tokenizer, pinhole.model
    packer, rng = Packer(tokenizer, per_image=3), random.Random(5)
    shown = scenes(rng, 2, (6, 10))
    asked = []
    original = packer.questions
    packer.questions = lambda *a: asked.append(original(*a)) or asked[-1]
    batch = packer.pack(shown, rng, {})
    core = model.model
    with torch.no_grad():
        seen = core.visual(batch.pixels, grid_thw=batch.grid)
        image = batch.ids == packer.image
        embeds = core.language_model.embed_tokens(batch.ids).masked_scatter(image[..., None], seen.pooler_output)
        hidden = core.language_model(
            inputs_embeds=embeds,
            position_ids=batch.positions,
            attention_mask=batch.mask,
            visual_pos_masks=image,
            deepstack_visual_embeds=seen.deepstack_features,
        ).last_hidden_state
    for row, items in enumerate(asked):
        logits = model.lm_head(hidden[row][batch.labels[row] != IGNORE]).log_softmax(-1)
        labels = batch.labels[row][batch.labels[row] != IGNORE]
        packed = logits.gather(1, labels[:, None])[:, 0].double()
        alone = []
        for item in items:
            told = vtrace.trace(pinhole, item.image, item.question, response=item.response)
            alone.append(torch.from_numpy(vtrace.attribute(pinhole, told).likelihoods[0]))
        torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-3, atol=1e-3)


def test_generation_goes_through_the_public_interface(pinhole):
    items = [sample("test", index) for index in range(2)]
    responses = respond(pinhole.model, pinhole.processor, items, [item.image for item in items])
    single = vtrace.trace(pinhole, items[1].image, items[1].question)
    assert responses[1] == single.response
    assert answer_of(responses[1]) == single.answer_text


def test_muon_updates_are_orthogonal_and_batched_by_shape():
    torch.manual_seed(0)
    square = orthogonalise(torch.randn(3, 24, 40))
    values = torch.linalg.svdvals(square)
    assert values.min() > 0.6
    assert values.max() < 1.3
    weights = [torch.nn.Parameter(torch.randn(6, 4)) for _ in range(2)] + [torch.nn.Parameter(torch.randn(4, 4))]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    before = [weight.detach().clone() for weight in weights]
    Muon(weights, lr=0.1).step()
    assert all((a - b).norm() > 0 for a, b in zip(before, weights, strict=True))


def test_an_interrupted_training_run_continues_as_if_nothing_happened(tmp_path, monkeypatch):
    from vtrace.pinhole import train
    from vtrace.pinhole.build import build_model, build_tokenizer

    monkeypatch.setattr(train, "SAVE_EVERY", 1)
    tokenizer = build_tokenizer()

    def run(folder, stop_at=None):
        torch.manual_seed(0)
        seer = train.Seer(build_model(tokenizer).model.visual, 128)

        def every(step):
            if step == stop_at:
                raise KeyboardInterrupt
            return {}

        folder.mkdir(exist_ok=True)
        train.run_stage("see", seer, 2, 3, folder, every)
        return torch.cat([p.detach().flatten() for p in seer.parameters()])

    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", stop_at=2)
    torch.testing.assert_close(run(tmp_path / "broken"), whole, rtol=0, atol=0)
    assert len((tmp_path / "broken" / "log.jsonl").read_text().splitlines()) == 1
