"""Ordered paths: both levels equal literal twins, and only what can happen is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from oracles import methods
from oracles.states import cached_states
from vtrace.methods.ordered import flows_into_predictors
from vtrace.methods.ordered_edges import share_blocks
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target


@pytest.fixture(scope="module")
def session(random_lvlm, random_trace):
    return TraceSession.open(random_lvlm, random_trace)


def groups_of(session):
    return [torch.tensor(session.trace.positions(kind)) for kind in ("image", "question")]


def session_flows(session, relative=True):
    start, length = session.trace.prompt_length, len(session.trace)
    return flows_into_predictors(session.layers(), start, length, groups_of(session), relative)


def literal_flows(session, relative=True):
    V, a, x_attn, _, Wo = cached_states(session.seam.model, session.seam.decoder, session.arguments)
    trace = session.trace
    image, question = trace.positions("image"), trace.positions("question")
    return methods.ordered_flows(V, a, x_attn, Wo, image, question, trace.prompt_length, relative)


@pytest.fixture(scope="module")
def literal(session):
    return literal_flows(session)


def test_shares_of_the_whole_residual_equal_their_twin_too(session, literal):
    plain = session_flows(session, relative=False)
    torch.testing.assert_close(plain, literal_flows(session, relative=False), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(plain, literal, rtol=1e-2)


def test_what_all_residuals_have_in_common_hides_nothing(session):
    """A large feature that every position has makes shares of the whole residual vanish, but not relative ones."""
    layer = session.layers()[0]
    common = layer.residual.clone()
    common[:, 0] += 10 * float((layer.residual + layer.update).norm(dim=-1).mean())

    def total(residual, relative):
        blocks = share_blocks(replace(layer, residual=residual), groups_of(session), 0, relative)
        return float(sum(block.edges.sum() for block in blocks))

    assert total(common, relative=False) < 0.2 * total(layer.residual, relative=False)
    assert total(common, relative=True) > 0.5 * total(layer.residual, relative=True)


def test_flows_equal_the_ordered_product_of_all_layers(session, literal):
    torch.testing.assert_close(session_flows(session), literal, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("normalise", ["scaled", "columns"])
@pytest.mark.parametrize("spec", ["response", "answer", slice(2, 4)])
def test_scores_equal_flows_through_an_explicit_inverse(session, literal, spec, normalise, own):
    start, target = session.trace.prompt_length, find_target(session.trace, spec)
    expected = methods.ordered(literal, start, [p - start for p in target.positions], normalise == "columns", own)
    found = METHODS["vtrace-ordered"].run(session, target, normalise=normalise, own=own).scores
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_nothing_flows_backwards(session):
    flows = session_flows(session)
    start = session.trace.prompt_length
    for token in range(flows.shape[1]):
        assert flows[start + token :, token].eq(0).all(), "a predictor sees nothing from its own token on"
        assert flows[start - 1 + token, token] == 1


@pytest.mark.parametrize("options", [{"normalise": "columns"}, {"own": True}, {"centring": False}, {"relative": False}])
def test_variants_are_finite_shares(pinhole, trace, options):
    found = run_method("vtrace-ordered", TraceSession.open(pinhole, trace), find_target(trace, "answer"), **options)
    assert abs(found.scores[found.trace.positions("image", "question")].sum() - 1) < 1e-9
    assert (found.scores >= 0).all()
