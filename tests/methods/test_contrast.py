"""Why this answer and not that one: signed, symmetric, and true where the truth is known."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import vtrace
from support.comparing import maps_of
from vtrace.benchmarks.registry import shapes_example
from vtrace.benchmarks.shapes.sample import sample
from vtrace.errors import InputError
from vtrace.faithfulness.evidence import evidence_positions
from vtrace.lvlm.gradients import Graph
from vtrace.methods.contrast import written_evidence
from vtrace.methods.session import TraceSession
from vtrace.report.documents import attribution_document, from_document
from vtrace.tracing.alternative import with_alternative
from vtrace.tracing.targets import find_target

NAMED = ("at", "walk1", "walk2", "walk3", "walk_read")  # tasks whose answer names a shape


def literal_evidence(session, target):
    """Every write of every head, centred, times the gradient of what its receiver is written."""
    graph = Graph(session.seam, session.arguments, session.ids, target.positions)
    by_head = graph.gradient(graph.logits.sum()).by_head
    total = torch.zeros(len(session.trace), dtype=torch.float64)
    for layer, gradient in zip(session.layers(), by_head, strict=True):
        values = layer.value.float().clone()
        for kind in ("image", "question"):
            places = session.trace.positions(kind)
            values[:, places] -= values[:, places].mean(dim=1, keepdim=True)
        maps, heads = maps_of(layer), len(layer.query)
        for head in range(heads):
            value = values[head * len(values) // heads]
            for receiver in range(len(session.trace)):
                written = maps[head][receiver, :receiver, None] * value[:receiver]
                total[:receiver] += (written @ gradient[head, receiver]).double()
    return total.numpy()


def test_written_evidence_equals_its_literal_twin(random_lvlm, random_trace):
    session = TraceSession.open(random_lvlm, random_trace)
    target = find_target(random_trace, "answer")
    expected = literal_evidence(session, target)
    found = written_evidence(session, target).scores
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["vtrace", "gradient", "attnlrp"])
def test_exchanging_the_answers_flips_every_sign(pinhole, trace, method):
    there = vtrace.contrast(pinhole, trace, "red star", method=method)
    other = with_alternative(pinhole, trace, find_target(trace, "answer"), "red star")
    assert other.answer_text == "red star"
    back = vtrace.contrast(pinhole, other, trace.answer_text, method=method)
    first = find_target(trace, "answer").positions[0]
    np.testing.assert_array_equal(there.scores[:first], -back.scores[:first])
    np.testing.assert_array_equal(there.evidence[:first], back.counter_evidence[:first])
    assert (there.log_likelihood, there.against_log_likelihood) == (back.against_log_likelihood, back.log_likelihood)
    assert np.abs(there.scores[trace.inputs]).sum() == pytest.approx(1)
    np.testing.assert_allclose(there.scores, there.evidence - there.counter_evidence, atol=1e-12)
    assert not there.scores[first:].any()


def test_a_longer_alternative_and_a_phrase_of_the_reasoning(pinhole, trace):
    longer = vtrace.contrast(pinhole, trace, "the large green triangle on the left")
    assert longer.against_log_likelihood < longer.log_likelihood
    row = vtrace.contrast(pinhole, trace, "1", target='"3"#1')
    first = find_target(trace, '"3"#1').positions[0]
    assert not row.scores[first:].any()
    assert row.scores[:first].any()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["pinhole", "pinhole-internvl"])
def test_in_shapes_the_alternatives_own_cell_speaks_against_the_answer(model):
    lvlm, against, in_favour = vtrace.load(model), [], []
    for number in range(36):
        item = sample("dev", number)
        asked = vtrace.trace(lvlm, shapes_example(item)) if item.task in NAMED else None
        if asked is None or asked.answer_text != item.answer:
            continue
        things = item.scene.things
        (said,) = [thing for thing in things if thing.name == item.answer][:1]
        others = [t for t in things if t.colour != said.colour and t.shape != said.shape]
        others = [t for t in others if sum(t.name == other.name for other in things) == 1]
        if not others:
            continue
        other = random.Random(number).choice(others)
        scores = vtrace.contrast(lvlm, asked, other.name).scores
        for thing, sums in ((other, against), (said, in_favour)):
            sums.append(scores[evidence_positions(replace(asked, evidence_boxes=(thing.box,))).image].sum())
    assert len(against) >= 12
    assert np.mean(np.array(against) < 0) >= 0.8
    assert np.mean(np.array(in_favour) > 0) >= 0.8


def test_it_is_saved_and_printed(pinhole, trace, attribution, run, monkeypatch):
    contrast = vtrace.contrast(pinhole, trace, "red star")
    loaded = from_document(json.loads(json.dumps(attribution_document(replace(attribution, contrast=contrast)))))
    np.testing.assert_array_equal(loaded.contrast.scores, contrast.scores)
    assert loaded.contrast.against == "red star"
    assert loaded.retarget("answer").contrast is None
    monkeypatch.setenv("COLUMNS", "400")
    code, out, _ = run("explain", "--target", "answer", "--against", "red star", "--quiet")
    assert code == 0
    assert "for “blue cross”  for “red star”  difference" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"against": "  "}, "the alternative is empty; give an answer such as 'red star'"),
        ({"against": "\u200b"}, "the alternative is empty; give an answer such as 'red star'"),
        ({"against": "blue cross"}, "the alternative 'blue cross' is what the response says"),
        ({"against": "<|image_pad|>"}, "the alternative contains '<|image_pad|>'"),
        ({"against": "red star", "target": "response"}, "nothing comes before response; contrast a part"),
        ({"against": "red star", "target": r"/row \d/"}, "is not one run of tokens"),
        ({"against": "red star", "method": "ifr"}, "scores of ifr have no sign; contrast answers by one of: vtrace"),
        ({"against": "red star", "method": "magic"}, "unknown method 'magic'"),
    ],
)
def test_what_cannot_be_contrasted_is_one_line(pinhole, trace, options, words):
    with pytest.raises(InputError) as caught:
        vtrace.contrast(pinhole, trace, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_alternative_beyond_the_context_is_refused_at_once(pinhole, trace):
    with pytest.raises(InputError, match="more than the model's context of 4096"):
        vtrace.contrast(pinhole, trace, "a" * 20_000)
