"""Refined rankings: measured inputs first, by what they cost; everything else in its order below them."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vtrace
from oracles.hidden import PlainPasses, refined
from vtrace.errors import InputError, ModelError
from vtrace.methods import refine as refine_module
from vtrace.methods.catalogue import parse_names, refine_all
from vtrace.methods.comparison import compare
from vtrace.methods.measured_groups import first_groups, measure_strongest, quarters, worth_of_inputs
from vtrace.methods.refine import above_others
from vtrace.methods.registry import METHODS, find_method, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target
from vtrace.types import Box, Patch


@pytest.fixture(scope="module")
def passes(pinhole, trace) -> PlainPasses:
    return PlainPasses(pinhole, trace)


def order_of(found) -> list[int]:
    inputs = found.trace.positions("image", "question")
    return [inputs[k] for k in np.argsort(-found.scores[inputs], kind="stable")]


@pytest.mark.parametrize(
    ("measured_on", "base", "sides"),
    [("response", "vtrace", "both"), ("target", "vtrace-ordered", "both"), ("response", "vtrace-ordered", "hidden")],
)
def test_a_refined_ranking_is_a_loop_over_plain_passes(pinhole_session, passes, measured_on, base, sides):
    session, trace = pinhole_session, pinhole_session.trace
    target = find_target(trace, "answer")
    plain = run_method(base, session, target)
    found = run_method(f"{base}-refined", session, target, budget=5, measured_on=measured_on, sides=sides)
    said = target.positions if measured_on == "target" else range(trace.prompt_length, len(trace))
    order, worth = refined(passes, plain.scores, 5, [p - trace.prompt_length for p in said], sides)
    assert order_of(found)[5:] == order[5:]
    measured = {int(p): value for p, value in found.details["refinement"]["worth"].items()}
    assert measured == pytest.approx(worth, rel=1e-3, abs=1e-4)
    assert order_of(found)[:5] == sorted(measured, key=lambda p: -measured[p])
    positive = {p: max(0.0, value) for p, value in worth.items()}
    if total := sum(positive.values()):
        shares = {p: found.scores[p] for p in worth}
        assert shares == pytest.approx({p: value / total for p, value in positive.items()}, rel=1e-2, abs=1e-4)


def test_what_refining_costs_stands_beside_the_result(pinhole, trace):
    found = compare(
        pinhole, trace, ["vtrace", "vtrace-refined", "random-refined"], options={"vtrace-refined": {"budget": 3}}
    )
    assert {name: cost.passes for name, cost in found.costs.items()} == {
        "vtrace": 4, "vtrace-refined": 4 + 1 + 3, "random-refined": 1 + 32,
    }  # fmt: skip
    assert found["vtrace-refined"].details["refinement"]["passes"] == 1 + 3


def test_a_refined_attribution_is_complete(pinhole_session):
    found = run_method("vtrace-refined", pinhole_session, find_target(pinhole_session.trace, "answer"), budget=4)
    inputs = found.trace.positions("image", "question")
    assert found.method == "vtrace-refined"
    assert found.scores[inputs].sum() == pytest.approx(1)
    assert (found.scores[inputs] >= 0).all()
    assert found.options["budget"] == 4
    assert found.options["gamma"] == 1.0, "options of the method that was refined are kept"
    assert found.pairwise is None, "paths explain another ranking"
    assert not found.calibration.applied


def test_every_input_hidden_is_leave_one_out(random_lvlm, random_trace):
    session, target = TraceSession.open(random_lvlm, random_trace), find_target(random_trace, "response")
    found = run_method("random-refined", session, target, share=1.0)
    signed = np.array(run_method("loo", session, target).details["signed"])
    assert len(found.details["refinement"]["worth"]) == len(session.inputs)
    for position, worth in found.details["refinement"]["worth"].items():
        assert worth == pytest.approx(signed[int(position)], abs=1e-4)


# Bad input


def test_a_budget_beyond_all_inputs_hides_all_and_says_so(random_lvlm):
    processor = copy.deepcopy(random_lvlm.processor)
    processor.image_processor.size = {"shortest_edge": 1, "longest_edge": 32 * 32}
    lvlm = dataclasses.replace(random_lvlm, processor=processor)
    one = vtrace.Example((Image.new("RGB", (32, 32), "red"),), "Is it red?")
    session = TraceSession.open(lvlm, vtrace.trace(lvlm, one, response="yes"))
    assert len(session.trace.patches) == 1, "a picture of one patch"
    found = run_method("vtrace-refined", session, find_target(session.trace, "response"))
    count = len(session.inputs)
    assert found.details["refinement"]["passes"] == 1 + count
    assert found.warnings[-1] == f"budget 32 is more than there are inputs: all {count} of them were measured"
    assert found.scores[session.inputs].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"budget": 0}, "vtrace-refined.budget is 0; it must be at least 1"),
        ({"budget": 2.5}, "vtrace-refined.budget is 2.5; it must be a whole number"),
        ({"measured_on": "answer"}, "vtrace-refined.measured_on is 'answer'; use one of: 'response', 'target'"),
        ({"share": 1.5}, "vtrace-refined: share is 1.5; it must be above 0 and at most 1"),
    ],
)
def test_invalid_options_are_named(pinhole_session, options, reason):
    with pytest.raises(InputError) as error:
        run_method("vtrace-refined", pinhole_session, find_target(pinhole_session.trace, "answer"), **options)
    assert str(error.value) == reason


def test_unknown_methods_cannot_be_refined():
    for name in ("nothing-refined", "vtrace-refined-refined"):
        with pytest.raises(InputError, match="unknown method"):
            find_method(name)


def test_a_model_that_fails_in_a_refining_pass_is_reported_and_others_still_run(pinhole, trace, monkeypatch):
    whole = TraceSession.without

    def broken(session, groups, radius):
        found = whole(session, groups, radius)
        return found.index_fill(0, torch.tensor([2]), torch.nan)

    monkeypatch.setattr(TraceSession, "without", broken)
    found = compare(pinhole, trace, ["vtrace", "vtrace-refined"])
    assert list(found.results) == ["vtrace"]
    assert found.failures == {
        "vtrace-refined": "vtrace-refined: likelihoods are not finite while inputs are hidden; "
        "try dtype float32 or bfloat16"
    }
    monkeypatch.setattr(TraceSession, "without", lambda *_: (_ for _ in ()).throw(MemoryError("out of memory")))
    with pytest.raises(ModelError, match="vtrace-refined: out of memory"):
        run_method("vtrace-refined", TraceSession.open(pinhole, trace), find_target(trace, "answer"))


# Names


def test_refining_all_methods_moves_their_options():
    names, options = refine_all(["vtrace", "ifr", "vtrace-refined"], {"ifr": {"aggregate": "span"}}, 8)
    assert names == ["vtrace-refined", "ifr-refined"]
    assert options == {"vtrace-refined": {"budget": 8}, "ifr-refined": {"budget": 8, "aggregate": "span"}}
    assert refine_all(["ifr"], {"ifr": {"aggregate": "span"}}, None) == (["ifr"], {"ifr": {"aggregate": "span"}})


def test_every_method_can_be_refined():
    for name in METHODS:
        if not METHODS[name].after:
            assert {"budget", "measured_on", *METHODS[name].options} <= set(find_method(f"{name}-refined").options)


def test_a_method_that_is_named_twice_runs_once():
    assert parse_names("vtrace, ifr,vtrace ") == ["vtrace", "ifr"]


# Large grids


def grid(rows: int, columns: int, words: int = 3) -> SimpleNamespace:
    patches = [Patch(k, 0, k // columns, k % columns, Box(0, 0, 1, 1)) for k in range(rows * columns)]
    question = list(range(len(patches), len(patches) + words))
    return SimpleNamespace(patches=patches, positions=lambda kind: question)


def test_large_grids_begin_with_squares_and_small_ones_with_patches():
    assert first_groups(grid(8, 8)) == [(k,) for k in range(67)]
    squares = first_groups(grid(32, 30))
    assert len(squares) == 8 * 8 + 3
    assert sorted(p for group in squares for p in group) == list(range(32 * 30 + 3))
    assert max(map(len, squares)) == 16


def test_more_pictures_than_squares_are_hidden_whole():
    patches = [Patch(k, k // 4, k % 4 // 2, k % 2, Box(0, 0, 1, 1)) for k in range(130 * 4)]
    groups = first_groups(SimpleNamespace(patches=patches, positions=lambda kind: []))
    assert groups == [tuple(range(4 * number, 4 * number + 4)) for number in range(130)]


def test_squares_are_split_into_quarters_down_to_patches():
    trace = grid(8, 8)
    square = (0, 1, 8, 9)
    assert quarters(trace, square) == [(0,), (1,), (8,), (9,)]
    assert quarters(trace, (0, 1, 2)) == [(0,), (1, 2)]
    assert sorted(map(len, quarters(trace, tuple(range(64))))) == [16] * 4


def test_the_patch_that_matters_is_found_by_splitting():
    trace, needle, asked = grid(32, 32), 517, []

    def measure(groups):
        asked.extend(groups)
        return [3.0 if needle in group else 0.01 * (len(group) > 4) for group in groups]

    weights = np.ones(1027)
    weights[[p.position for p in trace.patches if p.row // 4 == 517 // 32 // 4]] = 2  # the band that it is in
    hidden = measure_strongest(first_groups(trace), weights, 24, lambda group: quarters(trace, group), measure)
    worth = worth_of_inputs(hidden, weights)
    assert max(worth, key=worth.get) == needle
    assert worth[needle] == pytest.approx(3.0)
    assert len(asked) == 24


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 16, 63, 200])
def test_passes_are_never_more_than_the_budget(budget):
    trace, random, asked = grid(20, 20), np.random.default_rng(budget), []

    def measure(groups):
        asked.extend(groups)
        return random.normal(size=len(groups)).tolist()

    weights = random.random(403)
    hidden = measure_strongest(first_groups(trace), weights, budget, lambda group: quarters(trace, group), measure)
    assert len(asked) == len(set(asked)) <= budget
    assert len(asked) == budget or not any(len(group.positions) > 1 and group.worth > 0 for group in hidden)


def test_what_a_square_costs_beyond_its_parts_is_not_lost():
    """Two patches show the same thing: hidden singly, neither is missed."""
    group = SimpleNamespace(positions=(0, 1), worth=2.0, parts=[])
    group.parts = [SimpleNamespace(positions=(k,), worth=worth, parts=[]) for k, worth in ((0, 0.5), (1, -0.1))]
    weights = np.array([1.0, 2.0])
    assert worth_of_inputs([group], weights) == pytest.approx({0: 0.5 + 0.5, 1: -0.1 + 1.0})


def test_squares_of_a_real_picture_are_refined(pinhole_session, monkeypatch):
    monkeypatch.setattr(refine_module, "LARGE_GRID", 16)
    found = run_method("vtrace-refined", pinhole_session, find_target(pinhole_session.trace, "answer"), budget=12)
    assert found.details["refinement"]["passes"] == 1 + 12
    assert len(found.details["refinement"]["worth"]) > 12, "squares have several patches"
    assert found.scores[pinhole_session.inputs].sum() == pytest.approx(1)


def test_what_was_measured_ranks_above_what_was_not():
    weights = np.array([0.5, 0.0, 0.3, 0.1, 0.1])
    scores = above_others(weights, {0: -1.0, 2: 4.0})
    assert np.argsort(-scores, kind="stable").tolist() == [2, 0, 3, 4, 1]
    nothing = above_others(weights, {0: 0.0, 2: -4.0})
    assert np.argsort(-nothing, kind="stable").tolist() == [0, 2, 3, 4, 1]
