"""Several methods on one trace: what is shared, what is reported, and how agreement is measured."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
import warnings

import numpy as np
import pytest
import torch

import vtrace
from vtrace.errors import InputError, ModelError
from vtrace.lvlm.seam import Seam
from vtrace.methods import session
from vtrace.methods.comparison import QUICK, Comparison, compare, rank
from vtrace.methods.outcome import Outcome
from vtrace.methods.registry import METHODS, Method, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target

FEW = ("vtrace", "rollout", "ifr", "gradient", "chefer", "cage", "random")
BUDGET = {
    "reagent": {"steps": 3},
    "heta": {"probes": 1, "curvature": "finite"},
    "ig": {"steps": 4},
}


def failing(monkeypatch, name, error):
    """Put a method that raises in place of another."""

    def run(session, target):
        raise error

    monkeypatch.setitem(METHODS, name, dataclasses.replace(METHODS[name], run=run))


def returning(monkeypatch, name, scores):
    """Put a method with given scores in place of another."""
    monkeypatch.setitem(METHODS, name, dataclasses.replace(METHODS[name], run=lambda session, target: Outcome(scores)))


@pytest.fixture(scope="module")
def comparison(pinhole, trace) -> Comparison:
    return compare(pinhole, trace, FEW, "answer")


def test_what_methods_have_in_common_is_computed_once(pinhole, trace, monkeypatch):
    calls = {"capture": 0, "log_probabilities_padded": 0, "differentiate": 0, "PairwiseMatrix": 0}

    def counted(name, function):
        def call(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return call

    for place, names in (
        (Seam, ("capture", "log_probabilities_padded")),
        (session, ("differentiate", "PairwiseMatrix")),
    ):
        for name in names:
            monkeypatch.setattr(place, name, counted(name, getattr(place, name)))
    compare(pinhole, trace, FEW, "answer", calibrated=True)
    assert calls == dict.fromkeys(calls, 1)


def test_methods_that_do_not_need_an_instrumented_pass_run_without_one(pinhole, trace, monkeypatch):
    def refuse(self, consumer):
        raise AssertionError("an instrumented pass")

    monkeypatch.setattr(Seam, "capture", refuse)
    assert compare(pinhole, trace, ["random", "gradient", "centre"], "answer").failures == {}


def test_a_method_gives_the_same_in_company_and_alone(pinhole, trace, comparison):
    for name in FEW:
        alone = run_method(name, TraceSession.open(pinhole, trace), find_target(trace, "answer"))
        np.testing.assert_allclose(comparison[name].scores, alone.scores, rtol=1e-6, atol=1e-9)


def test_one_method_that_fails_is_reported_and_the_others_go_on(pinhole, trace, monkeypatch):
    failing(monkeypatch, "rollout", NotImplementedError("an operator is missing\nmore about it"))
    found = compare(pinhole, trace, ["rollout", "attention", "random"], "answer")
    assert list(found.results) == ["attention", "random"] == list(found.costs)
    assert found.failures == {"rollout": "rollout cannot run on this model: an operator is missing"}
    with pytest.raises(KeyError, match="an operator is missing"):
        found["rollout"]
    with pytest.raises(KeyError, match="ifr was not compared"):
        found["ifr"]


def test_too_little_memory_is_said_in_words(pinhole, trace, monkeypatch):
    failing(monkeypatch, "alti", RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 TB"))
    assert compare(pinhole, trace, ["alti", "random"]).failures["alti"].startswith("alti: out of memory; use a shorter")


def test_a_comparison_in_which_everything_failed_says_why(pinhole, trace, monkeypatch):
    failing(monkeypatch, "rollout", NotImplementedError("no kernel"))
    failing(monkeypatch, "random", ModelError("no dice"))
    with pytest.raises(InputError, match=r"rollout cannot run on this model: no kernel; random: no dice"):
        compare(pinhole, trace, ["rollout", "random"])


@pytest.mark.parametrize(
    "bug",
    [TypeError("a bug"), RuntimeError("The size of tensor a (4) must match the size of tensor b (5)"), IndexError("7")],
)
def test_a_mistake_in_the_program_is_not_taken_for_a_failure(pinhole, trace, monkeypatch, bug):
    failing(monkeypatch, "rollout", bug)
    with pytest.raises(type(bug), match=re.escape(str(bug))):
        compare(pinhole, trace, ["rollout", "random"])


def test_a_model_that_cannot_be_instrumented_can_still_be_differentiated(pinhole, trace, monkeypatch):
    def refuse(self, consumer):
        raise ModelError("attention does not go through the interface")

    monkeypatch.setattr(Seam, "capture", refuse)
    found = compare(pinhole, trace, ["rollout", "gradient"], "answer")
    assert list(found.results) == ["gradient"]
    assert found.failures == {"rollout": "rollout: attention does not go through the interface"}


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_scores_that_are_not_finite_name_the_method_and_the_position(pinhole, trace, monkeypatch, bad):
    scores = torch.ones(len(trace))
    scores[41] = bad
    returning(monkeypatch, "rollout", scores)
    with pytest.raises(ModelError, match="rollout: scores are not finite at position 41"):
        run_method("rollout", TraceSession.open(pinhole, trace), find_target(trace, "answer"))
    assert "position 41" in compare(pinhole, trace, ["rollout", "random"], "answer").failures["rollout"]


def test_gradients_that_are_not_finite_name_the_method_and_the_layer(random_lvlm, random_trace):
    session = TraceSession.open(random_lvlm, random_trace)
    session.layers()  # the instrumented pass, before the model breaks; gradients take a pass of their own
    weight = random_lvlm.seam.decoder.layers[1].self_attn.o_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = torch.nan
    try:
        for name in ("chefer", "glimpse"):
            with pytest.raises(ModelError, match=rf"{name}: gradients are not finite at layer \d"):
                run_method(name, session, find_target(random_trace, "answer"))
        with pytest.raises(ModelError, match="attnlrp: scores are not finite at position"):
            run_method("attnlrp", session, find_target(random_trace, "answer"))
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def test_a_layer_that_is_not_finite_is_named_by_every_method_that_records(random_lvlm, random_trace):
    weight = random_lvlm.seam.decoder.layers[1].self_attn.o_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = torch.nan
    try:
        failures = compare(random_lvlm, random_trace, ["ifr", "alti", "vtrace", "random"], "answer").failures
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert list(failures) == ["ifr", "alti", "vtrace"]
    for name, reason in failures.items():
        assert reason.startswith(f"{name}: layer 1 ")


def test_unknown_methods_and_options_are_refused_before_any_work(pinhole, trace, monkeypatch):
    monkeypatch.setattr(TraceSession, "open", None)
    with pytest.raises(InputError, match=r"unknown method 'shap'; use one of: vtrace, .*rollout, "):
        compare(pinhole, trace, ["vtrace", "shap"])
    with pytest.raises(InputError, match=r"ifr has no option 'hops'; it has: aggregate"):
        compare(pinhole, trace, ["ifr"], options={"ifr": {"hops": 2}})
    with pytest.raises(InputError, match=r"position has no option 'hops'; it has: none"):
        compare(pinhole, trace, ["position"], options={"position": {"hops": 2}})
    with pytest.raises(InputError, match=r"ifr.aggregate is 'median'; use one of: 'rows', 'span'"):
        compare(pinhole, trace, ["ifr"], options={"ifr": {"aggregate": "median"}})
    with pytest.raises(InputError, match="options were given for rollout"):
        compare(pinhole, trace, ["ifr"], options={"rollout": {"residual": 0.1}})
    with pytest.raises(InputError, match="at least one method"):
        compare(pinhole, trace, [])
    with pytest.raises(InputError, match="did you mean answer"):
        compare(pinhole, trace, ["ifr"], "the answer")


@pytest.mark.parametrize(
    ("name", "option", "value", "words"),
    [
        ("reagent", "steps", 0, "at least 1"),
        ("flashtrace", "hops", -1, "at least 0"),
        ("ig", "steps", 2.5, "a whole number"),
        ("rollout", "residual", "half", "a number"),
        ("reagent", "probes", True, "a whole number"),
        ("vtrace", "centring", "yes", "true or false"),
        ("reagent", "sampler", 3, "a word"),
    ],
)
def test_values_that_an_option_cannot_take_are_refused(pinhole, trace, name, option, value, words):
    with pytest.raises(InputError, match=rf"{name}\.{option} is .*{words}"):
        compare(pinhole, trace, [name], options={name: {option: value}})


def test_options_reach_their_method_and_are_kept(pinhole, trace):
    options = {"rollout": {"residual": 0.9}, "ifr": {"aggregate": "span"}}
    found = compare(pinhole, trace, ["rollout", "ifr"], "answer", options=options)
    assert found["rollout"].options["residual"] == 0.9
    assert found["ifr"].options == {**METHODS["ifr"].options, "aggregate": "span", "calibrated": False}
    plain = compare(pinhole, trace, ["rollout", "ifr"], "answer")
    for name in options:
        assert not np.allclose(found[name].scores, plain[name].scores)


def test_a_method_named_twice_runs_once(pinhole, trace):
    heard = []
    found = compare(pinhole, trace, ["random", "random"], progress=lambda done, total, label="": heard.append(label))
    assert heard == ["random"] == list(found.results)


def test_progress_is_heard_under_the_name_of_the_method(pinhole, trace):
    heard = []
    compare(
        pinhole,
        trace,
        ["random", "ig"],
        "answer",
        options={"ig": {"steps": 2, "tolerance": 1e9}},
        progress=lambda done, total, label="": heard.append((label, done, total)),
    )
    assert heard == [("random", 0, 0), ("ig", 0, 0), ("ig", 1, 2), ("ig", 2, 2)]


def test_seconds_and_memory_are_recorded(comparison):
    assert list(comparison.costs) == list(FEW)
    for cost in comparison.costs.values():
        assert 0 <= cost.own_seconds <= cost.seconds
        assert cost.seconds == pytest.approx(cost.own_seconds + sum(cost.shared.values()))
        assert cost.memory is None or cost.memory >= 0
    assert comparison.costs["random"].shared == {}
    assert set(comparison.costs["ifr"].shared) == {"instrumented pass"}
    assert set(comparison.costs["gradient"].shared) == {"backward pass"}
    assert set(comparison.costs["chefer"].shared) == {"instrumented pass", "backward pass"}


def test_shared_stages_count_for_everyone_who_stands_on_them(comparison):
    """W is folded once, from the instrumented pass: whoever asks for W would have paid for both alone."""
    for name in ("vtrace", "cage"):
        assert {"instrumented pass", "pairwise matrix"} <= set(comparison.costs[name].shared)


def test_a_stage_that_ran_twice_is_charged_to_those_who_used_it(random_lvlm, random_trace):
    """Without kept layers, W with and without centring takes a pass each; neither is charged for the other's."""
    alone = TraceSession.open(random_lvlm, random_trace, keep_layers=False)
    plain = alone.timed(lambda: alone.pairwise(centring=False))
    centred = alone.timed(lambda: alone.pairwise(centring=True))
    again = alone.timed(lambda: alone.pairwise(centring=True))
    assert again.shared == centred.shared
    both = alone.timed(lambda: (alone.pairwise(centring=True), alone.pairwise(centring=False)))
    assert both.shared["instrumented pass"] == pytest.approx(
        plain.shared["instrumented pass"] + centred.shared["instrumented pass"]
    )


def test_memory_that_a_method_takes_is_seen(pinhole, trace, monkeypatch):
    def greedy(session, target):
        return Outcome(torch.ones(200 << 20, dtype=torch.uint8)[: len(session.trace)].double())

    monkeypatch.setitem(METHODS, "rollout", Method("", (), "", run=greedy))
    memory = compare(pinhole, trace, ["rollout"]).costs["rollout"].memory
    assert memory is None or memory > 150 << 20


def test_agreement_is_symmetric_with_ones_on_the_diagonal(comparison):
    matrix = comparison.agreement
    assert matrix.shape == (len(FEW), len(FEW))
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(np.diag(matrix), 1)
    assert (np.abs(matrix) <= 1 + 1e-12).all()
    inputs = comparison.trace.positions("image") + comparison.trace.positions("question")
    one, two = (comparison[name].scores[inputs].argsort().argsort() for name in ("vtrace", "random"))
    assert matrix[0, -1] == pytest.approx(np.corrcoef(one, two)[0, 1])  # neither has ties


def test_agreement_of_opposite_and_of_constant_scores(pinhole, trace, monkeypatch):
    up = torch.arange(1, len(trace) + 1).double()
    returning(monkeypatch, "centre", 1 / up)
    returning(monkeypatch, "random", torch.ones(len(trace)))
    matrix = compare(pinhole, trace, ["position", "centre", "random"]).agreement
    assert matrix[0, 1] == pytest.approx(-1)
    assert np.isnan(matrix[2]).all()
    assert compare(pinhole, trace, ["position"]).agreement.tolist() == [[1.0]]


def test_equal_values_share_their_mean_rank():
    assert rank(np.array([0.5, 0.1, 0.5, -2.0, 0.5])).tolist() == [4, 2, 4, 1, 4]
    assert rank(np.array([7.0])).tolist() == [1]
    assert rank(np.zeros(4)).tolist() == [2.5] * 4


def test_ranks_do_not_change_under_monotone_maps():
    values = np.random.default_rng(0).normal(size=40)
    assert np.array_equal(rank(values), rank(np.exp(3 * values)))
    assert sorted(rank(values)) == list(range(1, 41))


def test_quick_methods_are_the_default_and_the_slow_ones_are_not_among_them():
    assert "vtrace" in QUICK
    assert not {"reagent", "heta", "loo", "ig"} & set(QUICK)


def test_calibration_gives_every_method_the_same_image_share(pinhole, trace):
    found = compare(pinhole, trace, ["vtrace", "rollout", "ifr", "gradient"], calibrated=True)
    shares = [result.image_share for result in found.results.values()]
    assert shares == pytest.approx([found["vtrace"].calibration.image_share] * 4)


@pytest.fixture(scope="module")
def everything(pinhole, trace) -> Comparison:
    few = TraceSession.inputs.fget

    def some(session):  # every eighth, so that HETA takes no minute
        return few(session)[::8]

    with pytest.MonkeyPatch.context() as patch:
        options = {name: option for name, option in BUDGET.items() if name != "heta"}
        rest = compare(pinhole, trace, [name for name in METHODS if name != "heta"], "answer", options=options)
        patch.setattr(TraceSession, "inputs", property(some))
        heta = compare(pinhole, trace, ["heta"], "answer", options={"heta": BUDGET["heta"]})
    return dataclasses.replace(
        rest, results=rest.results | heta.results, costs=rest.costs | heta.costs, failures=rest.failures | heta.failures
    )


def test_every_method_runs(everything):
    assert everything.failures == {}
    assert set(everything.results) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_finite_shares_of_what_came_before(everything, name):
    found, trace = everything[name], everything.trace
    assert found.method == name
    assert np.isfinite(found.scores).all()
    assert math.isfinite(found.log_scale)
    first = min(found.target.positions) - 1
    assert not found.scores[first:].any()
    inputs = trace.positions("image") + trace.positions("question")
    assert np.abs(found.scores[inputs]).sum() == pytest.approx(1)
    assert found.image_share + found.text_share == pytest.approx(1)
    assert len(found.ranking()) == len(trace.patches) + sum(w.kind == "question" for w in trace.words)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if "receivers" in m.options])
def test_a_target_that_is_read_at_its_tokens_can_rely_on_the_position_before(pinhole, trace, name):
    found = run_method(name, TraceSession.open(pinhole, trace), find_target(trace, "answer"), receivers="token")
    first = min(found.target.positions)
    assert not found.scores[first:].any()
    if name != "flashtrace" and name != "cage":  # these two credit the prompt alone
        assert found.scores[first - 1] > 0


def test_a_really_quantised_model_is_read_and_refused_in_one_line_by_what_cannot(pinhole, trace):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces a successor of its quantiser
        packed = torch.ao.quantization.quantize_dynamic(copy.deepcopy(pinhole.model), {torch.nn.Linear})
    found = vtrace.compare(dataclasses.replace(pinhole, model=packed), trace, ["ifr", "gradient"], "answer")
    assert list(found.results) == ["ifr"]
    inputs, full = trace.positions("image", "question"), vtrace.compare(pinhole, trace, ["ifr"], "answer")
    assert np.corrcoef(found["ifr"].scores[inputs], full["ifr"].scores[inputs])[0, 1] > 0.9
    assert found.failures["gradient"].startswith("gradient: this model cannot be differentiated: a layer, perhaps")
