"""Credit of a batch: every source equals its method on one response at a time."""

from __future__ import annotations

import numpy as np
import pytest

from vtrace.benchmarks.shapes.sample import sample
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.generate import trace
from vtrace.tracing.targets import find_target
from vtrace.types import Example

METHODS = {"vtrace": "vtrace", "vtrace-ordered": "vtrace-ordered", "attention flow": "flowtracer"}
REASONED = "The red star is at row 1 column 2.\nFinal answer: red star"


@pytest.fixture(scope="module")
def traces(pinhole):
    """Two prompts with pictures of different sizes; two different responses to the second."""
    found = [sample("dev", index) for index in (0, 7)]
    assert found[0].image.size != found[1].image.size
    examples = [Example((s.image,), s.question) for s in found]
    return [
        trace(pinhole, examples[0]),
        trace(pinhole, examples[1]),
        trace(pinhole, examples[1], response=REASONED),
    ]


@pytest.fixture(scope="module")
def rollouts(pinhole, traces):
    return [from_trace(pinhole, t) for t in traces]


@pytest.mark.parametrize("source", METHODS)
def test_a_batch_equals_its_method_one_at_a_time(pinhole, traces, rollouts, source):
    found = Credit(source).assign(pinhole, rollouts)
    for frozen, rollout, credit in zip(traces, rollouts, found, strict=True):
        session, target = TraceSession.open(pinhole, frozen), find_target(frozen, "answer")
        expected = run_method(METHODS[source], session, target).scores[rollout.scored.start : rollout.scored.stop]
        own = credit.scores[: len(rollout.scored)]
        assert np.isnan(credit.scores[len(rollout.scored) :]).all()
        np.testing.assert_allclose(own / own.max(), expected / expected.max(), rtol=1e-4, atol=1e-6)
