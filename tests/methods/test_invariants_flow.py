"""What must hold for methods that read one instrumented pass: sums, limits, and rows that equal whole products."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from oracles import methods
from oracles.states import cached_states
from support.comparing import close, maps_of, run
from vtrace.attribution.attention import BLOCK_BYTES, attention_rows
from vtrace.methods import flashtrace as flashtrace_module
from vtrace.methods.flowtracer import attention_capacity, conditioned, reach_of, throughput
from vtrace.methods.ifr import row_scores, shares_of, span_scores, writes_of
from vtrace.methods.registry import METHODS, run_method
from vtrace.tracing.targets import find_target
from vtrace.types import Target

# The instrumented pass


def test_instrumented_attention_times_writes_is_every_update(session):
    for layer, module in zip(session.layers(), session.seam.decoder.layers, strict=True):
        every = slice(0, len(session.trace))
        written = sum(a @ writes_of(layer, head, every) for head, a in enumerate(maps_of(layer)))
        bias = module.self_attn.o_proj.bias
        close(written if bias is None else written + bias.detach(), layer.update)


def test_instrumented_residuals_and_updates_are_those_of_an_eager_pass(session):
    _, a, x_attn, x_pre, _ = cached_states(session.seam.model, session.seam.decoder, session.arguments)
    for layer in session.layers():
        close(layer.residual, x_pre[layer.index])
        close(layer.residual + layer.update, x_attn[layer.index])
        close(maps_of(layer), a[layer.index])


def test_norms_of_writes_follow_the_groups_of_values(session):
    V, _, _, _, Wo = cached_states(session.seam.model, session.seam.decoder, session.arguments)
    for layer in session.layers():
        for head in range(len(layer.query)):
            direct = (V[layer.index][:, head] @ Wo[layer.index][head]).abs().sum(-1)
            close(writes_of(layer, head, slice(0, len(session.trace))).abs().sum(-1), direct)


# Rollout


def test_rows_of_rollout_sum_to_one(session):
    for spec in ("response", "answer", 0):
        scores = run("rollout", session, spec).scores
        assert float(scores.sum()) == pytest.approx(1, abs=1e-5)
        assert (scores >= 0).all()


def test_a_row_that_walks_down_is_a_row_of_the_whole_product(session, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 1 << 30)
    product = torch.eye(len(session.trace), dtype=torch.float64)
    for layer in session.layers():
        product = (maps_of(layer).double().mean(0) + torch.eye(len(product))) / 2 @ product
    for token in (0, 3):
        receiver = session.trace.prompt_length + token - 1
        close(run("rollout", session, token).scores, product[receiver], atol=1e-9)


def test_averaging_receivers_first_is_averaging_their_rows(session):
    rows = [run("rollout", session, token).scores for token in range(3, 7)]
    close(run("rollout", session, slice(3, 7)).scores, sum(rows) / 4, atol=1e-9)


# IFR and FlashTrace


def test_shares_of_tokens_and_residual_are_one_in_every_layer(session):
    where = torch.tensor([5, 40, session.trace.prompt_length, len(session.trace) - 1])
    for layer in session.layers():
        for rows, weights in attention_rows(layer, where):
            shares, stay = shares_of(layer, weights, layer.residual[rows], layer.update[rows])
            close(shares.sum(1) + stay, torch.ones(len(where)))
    found = run("ifr", session, 2)
    assert float(found.scores.sum()) + sum(found.details["residual_share"]) == pytest.approx(
        len(session.layers()), rel=1e-5
    )


def test_a_span_of_one_receiver_is_its_row(session):
    for receiver in (7, session.trace.prompt_length + 2):
        where = torch.tensor([receiver])
        rows, row_stays = row_scores(session, where)
        span, span_stays = span_scores(session, where, torch.ones(1))
        close(span, rows[0])
        close(span_stays, row_stays)


def test_scaling_the_weights_of_a_span_changes_nothing(session):
    where, weights = torch.tensor([60, 80, 100]), torch.tensor([0.2, 1.0, 3.0])
    close(span_scores(session, where, weights * 250)[0], span_scores(session, where, weights)[0])


def test_nothing_after_the_last_receiver_is_credited(session):
    """Rounding must not turn into a floor under every source."""
    first = session.trace.prompt_length
    for options in ({}, {"aggregate": "span"}):
        assert not run("ifr", session, slice(0, 3), receivers="token", **options).scores[first + 3 :].any()


def test_a_threshold_drops_weak_writes_and_shares_stay_whole(session):
    size = float(session.layers()[0].residual.abs().sum(-1).mean())
    plain, cut = run("ifr", session, 3), run("ifr", session, 3, threshold=size / 100)
    assert 0 < cut.scores.count_nonzero() < plain.scores.count_nonzero()
    assert float(cut.scores.sum()) + sum(cut.details["residual_share"]) == pytest.approx(
        len(session.layers()), rel=1e-4
    )


def test_flashtrace_without_hops_is_ifr_of_the_span_on_what_is_observed(session):
    spec = slice(2, 7)
    expected = run("ifr", session, spec, aggregate="span").scores
    expected[session.trace.prompt_length :] = 0
    close(run("flashtrace", session, spec, hops=0, bridge="thinking").scores, expected)


def test_flashtrace_of_nothing_but_stop_tokens_is_still_traced(session):
    """Weights of zero everywhere fall back to ones."""
    stop = flashtrace_module.stop_tokens(session.trace)
    tokens = [p for p in range(session.trace.prompt_length, len(session.trace) - 1) if stop[p]]
    found = METHODS["flashtrace"].run(session, Target("stops", tuple(tokens)), hops=0)
    where = torch.tensor(tokens) - 1
    expected, _ = span_scores(session, where, torch.ones(len(where)))
    expected[stop] = 0
    expected[session.trace.prompt_length :] = 0
    assert float(found.scores.sum()) > 0
    close(found.scores, expected)


def test_flashtrace_of_the_end_token_alone_is_finite(session):
    last = len(session.trace) - session.trace.prompt_length - 1
    found = run_method("flashtrace", session, find_target(session.trace, last), hops=3)
    assert np.isfinite(found.scores).all()
    assert found.scores.any()


@pytest.mark.parametrize("bridge", ["generation", "thinking"])
@pytest.mark.parametrize("receivers", ["predictor", "token"])
def test_the_end_token_never_receives_and_is_never_credited(session, bridge, receivers, monkeypatch):
    seen, end = set(), len(session.trace) - 1

    def spy(session, where, weights, threshold):
        seen.update(where[weights > 0].tolist())
        return span_scores(session, where, weights, threshold)

    monkeypatch.setattr(flashtrace_module, "span_scores", spy)
    scores = run("flashtrace", session, bridge=bridge, receivers=receivers, hops=2).scores
    assert seen
    assert end not in seen
    assert not scores[session.trace.prompt_length :].any()


@pytest.mark.parametrize("bridge", ["generation", "thinking"])
@pytest.mark.parametrize("spec", ["response", "answer", 0])
def test_what_is_carried_on_never_grows(session, bridge, spec):
    reaches = run("flashtrace", session, spec, bridge=bridge, hops=4).details["carried_on"]
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(reaches))
    assert 0 <= reaches[0] <= 1


# FlowTracer


def test_a_walker_that_is_known_to_arrive_arrives(session):
    capacity = attention_capacity(session, range(len(session.layers())))
    assert torch.equal(capacity, capacity.triu(1))
    answer = torch.tensor([p - 1 for p in find_target(session.trace, "answer").positions])
    reach = reach_of(capacity, answer)
    step = conditioned(capacity, reach, answer)
    moving = reach > 0
    moving[answer] = False
    assert moving.any()
    close(step.sum(1)[moving], torch.ones(int(moving.sum())), rtol=1e-9, atol=1e-9)
    assert not step[~moving].any()
    flow = throughput(capacity, reach, answer, torch.tensor(session.inputs))
    assert float(flow[answer].sum()) == pytest.approx(1, abs=1e-9)  # absorbed, where nothing leaves
    assert not reach[int(answer.max()) + 1 :].any()


def test_reach_by_recursion_is_reach_by_solving(session):
    capacity = attention_capacity(session, range(1, 2))
    answer = [p - 1 for p in find_target(session.trace, "answer").positions]
    expected = methods.flowtracer_reach(capacity, answer)
    close(reach_of(capacity, torch.tensor(answer)), expected, rtol=1e-9, atol=1e-12)


def test_an_input_that_reaches_nothing_injects_nothing():
    capacity = torch.zeros(5, 5, dtype=torch.float64)
    capacity[0, 4] = capacity[1, 3] = 0.5
    answer = torch.tensor([4])
    flow = throughput(capacity, reach_of(capacity, answer), answer, torch.tensor([0, 1]))
    assert flow.tolist() == [2, 0, 0, 0, 1]


def test_direct_flow_is_all_attention_but_that_to_oneself(session):
    receiver = session.trace.prompt_length + 1
    kept = np.mean([float(maps_of(layer)[:, receiver, receiver].mean()) for layer in session.layers()])
    scores = run("flowtracer", session, 2, mode="direct", first_layer=0.0, last_layer=1.0).scores
    assert float(scores.sum()) == pytest.approx(1 - kept, abs=1e-5)
