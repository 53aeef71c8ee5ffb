"""Hide the evidence, ask again: what verify measures is the evaluation's, what it costs is what it announced."""

from __future__ import annotations

import dataclasses
import json
from html import unescape

import numpy as np
import pytest

import vtrace
from vtrace.attribution.findings.verification import InputCount, in_words
from vtrace.errors import InputError
from vtrace.faithfulness.ask_again import AskAgain, NewReply, same_answer
from vtrace.faithfulness.curves import MODES
from vtrace.faithfulness.hidden_sets import HideableInputs, ladder_sizes, sizes_to_try, smallest_success
from vtrace.faithfulness.likelihoods import ResponseLikelihoods
from vtrace.faithfulness.verification_plan import VerificationPlan
from vtrace.methods.session import TraceSession
from vtrace.report.documents import attribution_document, from_document
from vtrace.tracing.generate import end_tokens
from vtrace.tracing.pictures import BLUR


@pytest.fixture(scope="module")
def answer(attribution):
    return attribution.retarget("answer")


@pytest.fixture(scope="module")
def verified(pinhole, answer):
    return answer.verify(pinhole, setting="image")


@pytest.fixture(scope="module")
def verification(verified):
    return verified.verification


@pytest.mark.parametrize("model", ["pinhole", "pinhole-internvl"])
def test_with_nothing_hidden_the_frozen_response_is_generated_token_by_token(model):
    lvlm = vtrace.load(model)
    for key in ("dev-1", "dev-7"):
        trace = vtrace.trace(lvlm, vtrace.example(key))
        perturbation = TraceSession.open(lvlm, trace).perturbation(BLUR)
        image, frozen = trace.positions("image"), list(trace.ids[trace.prompt_length :])
        # among other states in the batch, which end earlier or later
        states = [[], image, trace.positions("question"), [], image[::2]]
        replies = perturbation.generate(states, 2 * len(frozen), end_tokens(lvlm))
        assert replies[0] == replies[3] == frozen
        assert replies[1] != frozen
        assert replies[2] != frozen


def test_a_hidden_state_is_answered_as_by_the_models_own_generate(pinhole, trace):
    """With every patch blurred: the same as asking about the blurred picture."""
    from vtrace.tracing.pictures import blur

    soft = vtrace.trace(pinhole, vtrace.types.Example(tuple(blur(trace.images, 0.2)), trace.question))
    asked = AskAgain(TraceSession.open(pinhole, trace), 0.2)
    (reply,) = asked.ask([frozenset(trace.positions("image"))])
    assert (reply.text, reply.answer) == (soft.response.strip(), soft.answer_text)


def test_a_reply_is_cut_off_where_there_is_no_room_left(pinhole, trace):
    perturbation = TraceSession.open(pinhole, trace).perturbation(BLUR)
    (reply,) = perturbation.generate([[]], 5, end_tokens(pinhole))
    assert reply == list(trace.ids[trace.prompt_length :][:5])


def test_likelihoods_are_those_of_the_evaluation(pinhole, answer, verification):
    trace, order = answer.trace, verification.order
    engine = ResponseLikelihoods(TraceSession.open(pinhole, trace), verification.blur)
    every = frozenset(trace.positions("image"))
    tokens = [p - trace.prompt_length for p in answer.target.positions]
    for side, state in (
        (verification.necessary, lambda first: first),
        (verification.sufficient, lambda first: every - first),
    ):
        steps = [step for step in side.curve if step.response is not None]
        states = [state(frozenset(p for unit in order[: step.inputs] for p in unit)) for step in steps]
        np.testing.assert_allclose([s.response for s in steps], engine.measure(states), atol=1e-6)
        np.testing.assert_allclose([s.target for s in steps], engine.measure(states, tokens), atol=1e-6)


def test_areas_are_those_of_the_evaluation(pinhole, answer, verification):
    steps = len(verification.insertion.response) - 1
    engine = ResponseLikelihoods(TraceSession.open(pinhole, answer.trace), verification.blur)
    (curves,) = engine.curves([answer.scores], ("image",), steps)
    for mode in MODES:
        found = getattr(verification, mode)
        assert found.rise == pytest.approx(curves["image", mode].rise, abs=1e-6)
        assert found.mas == pytest.approx(curves["image", mode].mas, abs=1e-6)


def test_it_costs_what_was_announced(pinhole, answer):
    """One pass is one sequence that goes through the decoder with the frozen response."""
    plan = VerificationPlan.of(answer)
    start, length = answer.trace.prompt_length, len(answer.trace)
    passes = generated = 0

    def count(module, args, kwargs, output):
        nonlocal passes, generated
        rows, tokens = kwargs["inputs_embeds"].shape[:2]
        cache = kwargs["past_key_values"]
        seen = tokens if cache is None else cache.get_seq_length()  # with what was decoded before
        passes += rows if seen == length and tokens > length - start else 0
        generated += rows if seen == tokens == start else 0

    hook = pinhole.seam.decoder.register_forward_hook(count, with_kwargs=True)
    try:
        found = answer.verify(pinhole).verification
    finally:
        hook.remove()
    assert (passes, generated) == (found.passes, found.sequences)
    assert found.passes <= plan.cost.passes <= 30
    assert found.generations <= plan.cost.generations == 8
    assert found.sequences <= plan.cost.sequences


def test_more_passes_give_finer_curves_and_too_few_are_refused(answer):
    plans = [VerificationPlan.of(answer, passes=passes) for passes in (19, 30, 60)]
    assert [plan.steps for plan in plans] == [1, 6, 20]
    assert [plan.cost.passes for plan in plans] == sorted(plan.cost.passes for plan in plans)
    with pytest.raises(InputError, match="passes is 5; verifying this explanation needs at least 19"):
        VerificationPlan.of(answer, passes=5)
    with pytest.raises(InputError, match=r"generations is 1; .* at least 2"):
        VerificationPlan.of(answer, generations=1)
    with pytest.raises(InputError, match="setting is 'text'; use one of: 'image', 'question', 'joint'"):
        VerificationPlan.of(answer, setting="text")
    with pytest.raises(InputError, match="blur radius must be positive"):
        VerificationPlan.of(answer, blur=0.0)


def test_the_embedded_example_is_proved(verification):
    """Its evidence is one patch: hidden, the answer changes; random patches do not change it."""
    assert verification.answer == "blue cross"
    assert verification.necessary.inputs == 1
    assert verification.random.draws == 8
    assert verification.random.changed == 0
    assert verification.lowest.changed == 0
    assert verification.verdict.startswith("Hiding 1 of 64 patches changes the answer from 'blue cross' to ")
    assert "hiding 1 random patch never did in 8 draws. Keeping only " in verification.verdict
    first, last = verification.sufficient.curve[0], verification.sufficient.curve[-1]
    assert first.changed
    assert not last.changed
    assert verification.sufficient.answer == "blue cross"


def test_it_is_saved_with_the_attribution_and_dropped_by_another_target(verified, verification):
    document = json.loads(json.dumps(attribution_document(verified)))
    assert document["verification"]["verdict"] == verification.verdict
    loaded = from_document(document)
    assert loaded.verification == verification
    assert verified.retarget("response").verification is None
    del document["verification"]["random"]
    with pytest.raises(InputError, match="the document is damaged"):
        from_document(document)


def test_a_notebook_shows_the_verdict(verified, verification):
    shown = unescape(verified._repr_html_())
    assert json.dumps(verification.verdict, ensure_ascii=False) in shown


def test_a_supplied_response_is_judged_against_what_the_model_itself_answers(pinhole):
    trace = vtrace.trace(pinhole, vtrace.example(), response="It is there.\nFinal answer: green star")
    found = vtrace.attribute(pinhole, trace, "answer").verify(pinhole, setting="image", draws=1).verification
    assert found.answer == "blue cross"
    (note,) = found.warnings
    assert "the model answers 'blue cross', not 'green star'" in note


def test_the_same_seed_draws_the_same_sets(answer):
    plans = [VerificationPlan.of(answer, seed=seed) for seed in (0, 0, 1)]
    sets = [[plan.random(5, draw) for draw in range(plan.draws)] for plan in plans]
    assert sets[0] == sets[1] != sets[2]
    assert all(plans[0].inputs.count(one) == plans[0].inputs.count(range(5)) for one in sets[0])


def test_sets_partition_the_inputs(answer):
    inputs = HideableInputs.of(answer, "joint")
    for size in (0, 1, 7, len(inputs)):
        hidden, others = inputs.hide(range(size)), inputs.keep(range(size))
        assert hidden | others == frozenset(answer.trace.inputs)
        assert not hidden & others
    with pytest.raises(InputError, match="there is nothing to hide: the prompt has no patches"):
        HideableInputs.of(dataclasses.replace(answer, trace=dataclasses.replace(answer.trace, patches=())), "image")


def test_sizes_of_the_ladder():
    assert ladder_sizes(81) == [1, 2, 5, 9, 17]
    assert ladder_sizes(2) == [1]
    assert ladder_sizes(1) == []


@pytest.mark.parametrize("smallest", [1, 4, 13, 63, 64, 900])
def test_the_search_finds_the_smallest_size_where_larger_ones_succeed_too(smallest):
    total, known = 1000, {size: size >= smallest for size in [0, *ladder_sizes(1000), 1000]}
    for _ in range(6):  # as many generations as there are by default
        more = sizes_to_try(known, 5)
        assert len(more) <= 5
        assert not set(more) & set(known)
        known |= {size: size >= smallest for size in more}
    assert smallest_success(known) == smallest
    assert sizes_to_try(known, 5) == []
    assert sizes_to_try({0: False, total: False}, 5) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("a", "blue cross"), ("b", "Blue cross."), True),
        (("a", "**4**"), ("b", "4"), True),
        (("a", "4"), ("b", None), False),
        (("A cat.", None), ("a cat", None), True),
        (("A cat.", None), ("A dog.", None), False),
    ],
)
def test_answers_are_compared_as_benchmarks_grade_words(one, other, same):
    assert same_answer(NewReply(*one), NewReply(*other)) == same


def test_counts_in_words():
    assert in_words(InputCount(1, 0), InputCount(64, 28)) == "1 of 64 patches"
    assert in_words(InputCount(2, 1), InputCount(81, 6)) == "2 of 81 patches and 1 of 6 words"
    assert in_words(InputCount(1, 2), adjective="random") == "1 random patch and 2 random words"
    assert in_words(InputCount(0, 1)) == "1 word"
