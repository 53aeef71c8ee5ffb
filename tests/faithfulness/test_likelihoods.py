"""The likelihood of a frozen response under perturbed inputs, and curves of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from PIL import ImageFilter

import vtrace
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import ModelError
from vtrace.faithfulness.curves import curve_of, groups_of, mass_of, ranked, states_of
from vtrace.faithfulness.likelihoods import ResponseLikelihoods, hideable_positions
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.perturbation import Perturbation
from vtrace.tracing.pictures import blur
from vtrace.tracing.prompt import encode_trace
from vtrace.tracing.targets import find_target


def test_likelihoods_equal_one_plain_pass_over_a_picture_composed_in_pixels(pinhole, trace, pinhole_session):
    image = trace.positions("image")
    state = frozenset(image[3:9])
    found = ResponseLikelihoods(pinhole_session, 0.1).measure([state])[0]
    picture = trace.images[0]
    soft = picture.filter(ImageFilter.GaussianBlur(0.1 * max(picture.size)))
    mixed = picture.copy()
    for patch in trace.patches:
        if patch.position in state:
            box = tuple(round(v) for v in patch.box)
            mixed.paste(soft.crop(box), box)
    arguments = encode_trace(pinhole, dataclasses.replace(trace, images=(mixed,)))
    logs = pinhole.seam.log_probabilities(arguments, torch.tensor(trace.ids), trace.prompt_length)
    assert found == pytest.approx(logs.mean().exp().item(), rel=1e-5)


def test_the_ends_are_the_clean_and_the_fully_perturbed_likelihood(pinhole, trace, attribution, pinhole_session):
    likelihoods = ResponseLikelihoods(pinhole_session)
    curves = likelihoods.curves([attribution.scores], ("joint",), steps=2)[0]
    clean, perturbed = likelihoods.measure([frozenset(), frozenset(hideable_positions(likelihoods.trace, "joint"))])
    logs = pinhole.seam.log_probabilities(encode_trace(pinhole, trace), torch.tensor(trace.ids), trace.prompt_length)
    assert clean == pytest.approx(logs.mean().exp().item(), rel=1e-5)
    assert perturbed < clean
    assert curves["joint", "deletion"].response[0] == curves["joint", "insertion"].response[-1] == 1
    assert curves["joint", "deletion"].response[-1] == curves["joint", "insertion"].response[0] == 0


def test_curves_that_are_followed_no_further_than_needed_equal_those_of_every_step(
    pinhole, trace, attribution, pinhole_session
):
    rankings = [attribution.scores, np.random.default_rng(0).random(len(trace))]
    likelihoods, whole = ResponseLikelihoods(pinhole_session), ResponseLikelihoods(pinhole_session)
    for scores, found in zip(rankings, likelihoods.curves(rankings), strict=True):
        for (setting, mode), curve in found.items():
            groups = groups_of(ranked(scores, hideable_positions(trace, setting)))
            expected = curve_of(whole.measure(states_of(groups, mode)), mass_of(scores, groups), mode)
            np.testing.assert_allclose(curve.response, expected.response, atol=1e-5)
            assert (curve.rise, curve.mas) == pytest.approx((expected.rise, expected.mas), abs=1e-5)
    assert len(likelihoods._known) < 0.9 * len(whole._known)


def test_states_in_batches_equal_one_at_a_time_and_are_computed_once(pinhole_session, trace, monkeypatch):
    image, text = trace.positions("image"), trace.positions("question")
    states = states_of([image[:5] + text[:2], image[5:9], text[2:6]], "insertion")
    together = ResponseLikelihoods(pinhole_session).measure(states)
    monkeypatch.setattr("vtrace.lvlm.batch_size.CPU_TOKENS", 1)
    likelihoods = ResponseLikelihoods(pinhole_session)
    assert likelihoods.measure(states) == pytest.approx(together, rel=1e-5)

    def fail(*args):
        raise AssertionError("asked again for what is known")

    monkeypatch.setattr(Perturbation, "log_probabilities", fail)
    assert likelihoods.measure(states[::-1]) == pytest.approx(together[::-1], rel=1e-5)


def test_perturbing_leaves_the_model_as_it_was(pinhole, trace, pinhole_session):
    embed = pinhole.model.model.visual.patch_embed
    before = pinhole.model.model.rope_deltas
    threads = torch.get_num_threads()
    image = trace.positions("image")
    ResponseLikelihoods(pinhole_session).measure([frozenset(image[:k]) for k in range(len(image))])
    assert "forward" not in embed.__dict__
    assert pinhole.model.model.rope_deltas is before
    assert torch.get_num_threads() == threads


def test_the_blur_of_shapes_removes_what_the_answer_needs(pinhole):
    shapes, right = find_benchmark("shapes-dev"), 0
    for number in range(12):  # every task once
        example = shapes.example(number)
        soft = tuple(blur(example.images, shapes.blur))
        right += vtrace.trace(pinhole, dataclasses.replace(example, images=soft)).answer_text == example.answer
    assert right <= 3, "some questions can only be answered with yes or no"


@pytest.mark.slow
def test_shapes_tells_a_ranking_from_noise(pinhole):
    """Image insertion: noise at most 0.62, leave-one-out at least 0.15 above it."""
    shapes, rises = find_benchmark("shapes-dev"), []
    for number in range(12):  # every task once
        frozen = vtrace.trace(pinhole, shapes.example(number))
        session, target = TraceSession.open(pinhole, frozen), find_target(frozen, "response")
        noise = run_method("random", session, target, seed=number).scores
        measured = run_method("loo", session, target, radius=shapes.blur).scores
        curves = ResponseLikelihoods(session, shapes.blur).curves([noise, measured], ("image",))
        rises.append([own["image", "insertion"].rise for own in curves])
    noise, measured = np.mean(rises, axis=0)
    assert noise <= 0.62
    assert measured >= noise + 0.15


def test_likelihoods_that_are_no_numbers_are_an_error(pinhole_session, monkeypatch):
    monkeypatch.setattr(Perturbation, "log_probabilities", lambda self, states: torch.full((len(states), 3), torch.nan))
    with pytest.raises(ModelError, match="likelihoods are not finite; try dtype float32 or bfloat16"):
        ResponseLikelihoods(pinhole_session).measure([frozenset()])
