"""Ordered paths of a pass that keeps no layers: the same flows, from edges that are kept instead."""

from __future__ import annotations

import pytest
import torch

from vtrace.errors import ModelError
from vtrace.methods import ordered_edges
from vtrace.methods.ordered import ordered
from vtrace.methods.registry import keeps_layers
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target


def scores(lvlm, trace, *, keep_layers, **options):
    session = TraceSession.open(lvlm, trace, keep_layers=keep_layers)
    return ordered(session, find_target(trace, "answer"), **options).scores


@pytest.mark.parametrize("centring", [True, False])
def test_a_stream_gives_the_scores_of_kept_layers(random_lvlm, random_trace, centring):
    kept = scores(random_lvlm, random_trace, keep_layers=True, centring=centring)
    found = scores(random_lvlm, random_trace, keep_layers=False, centring=centring)
    torch.testing.assert_close(found, kept, rtol=1e-5, atol=0)


def test_edges_of_long_sequences_in_half_precision_are_nearly_the_same(pinhole, trace, monkeypatch):
    kept = scores(pinhole, trace, keep_layers=True)
    monkeypatch.setattr(ordered_edges, "EXACT_BYTES", 0)
    found = scores(pinhole, trace, keep_layers=False)
    torch.testing.assert_close(found, kept, rtol=2e-3, atol=1e-6 * float(kept.max()))
    inputs = trace.inputs
    assert torch.equal(kept[inputs].topk(20).indices, found[inputs].topk(20).indices)


def test_one_pass_serves_every_target_and_the_clean_likelihood(random_lvlm, random_trace):
    session = TraceSession.open(random_lvlm, random_trace, keep_layers=False)
    first = session.timed(lambda: ordered(session, find_target(random_trace, "answer")))
    second = session.timed(lambda: ordered(session, find_target(random_trace, "response")))
    assert first.passes == second.passes == 1
    assert session.timed(session.clean).passes == 1
    torch.testing.assert_close(session.clean(), TraceSession.open(random_lvlm, random_trace).clean())


def test_flow_that_is_not_finite_is_refused_for_every_target(random_lvlm, random_trace, monkeypatch):
    def refuse(values, layer):
        raise ModelError("scores are not finite")

    session = TraceSession.open(random_lvlm, random_trace, keep_layers=False)
    with monkeypatch.context() as patched:
        patched.setattr(ordered_edges, "check_finite", refuse)
        for target in ("answer", "response"):
            with pytest.raises(ModelError, match="not finite"):
                ordered(session, find_target(random_trace, target))
    found = ordered(session, find_target(random_trace, "answer")).scores
    torch.testing.assert_close(found, scores(random_lvlm, random_trace, keep_layers=False))


def test_alone_it_needs_no_kept_layers():
    assert not keeps_layers(["vtrace-ordered"])
    assert keeps_layers(["vtrace-ordered", "ifr"])
