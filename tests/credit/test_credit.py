"""Credit of a batch: every source equals its method on one response at a time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from vtrace.benchmarks.shapes.sample import sample
from vtrace.credit.credit import Credit
from vtrace.credit.policy import policy_of
from vtrace.credit.rollouts import from_tokens, from_trace
from vtrace.credit.sources import SOURCES
from vtrace.errors import InputError, ModelError
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


def test_weights_are_the_papers_on_the_scored_tokens(pinhole, rollouts):
    for rollout, credit in zip(rollouts, Credit().assign(pinhole, rollouts), strict=True):
        count = len(rollout.scored)
        assert credit.status == "assigned"
        assert len(credit.weights) == len(rollout.response)
        assert set(credit.weights.tolist()) == {1.0, 1.5}
        assert (credit.weights == 1.5).sum() == round(0.4 * count)
        assert (credit.weights[count:] == 1.0).all()
        assert 0 < credit.image_share < 1


@pytest.mark.parametrize("source", SOURCES)
def test_order_and_size_of_parts_do_not_matter(pinhole, rollouts, source):
    """The pairing of rows: a permuted batch gives permuted credit, however it is cut."""
    expected = Credit(source).assign(pinhole, rollouts)
    order = [2, 0, 1]
    for tokens_at_once in (1, 500):
        found = Credit(source, tokens_at_once=tokens_at_once).assign(pinhole, [rollouts[k] for k in order])
        for k, credit in zip(order, found, strict=True):
            np.testing.assert_allclose(credit.scores, expected[k].scores, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(credit.weights, expected[k].weights)


def test_a_rollout_from_tokens_is_the_one_of_its_trace(pinhole, traces, rollouts):
    for frozen, rollout in zip(traces, rollouts, strict=True):
        seen = {name: value for name, value in rollout.inputs.items() if name not in ("input_ids", "attention_mask")}
        found = from_tokens(
            pinhole, frozen.ids[: frozen.prompt_length], frozen.ids[frozen.prompt_length :], seen, [frozen.question]
        )
        assert (found.ids, found.question, found.answer, found.finished) == (
            rollout.ids,
            rollout.question,
            rollout.answer,
            True,
        )


def test_visual_dependence_and_entropy_are_what_they_say(pinhole, traces, rollouts):
    session = TraceSession.open(pinhole, traces[0])
    image = traces[0].positions("image")
    ids, start = session.ids, traces[0].prompt_length
    clean = pinhole.seam.log_probabilities(session.arguments, ids, start)[0]
    hidden = pinhole.seam.log_probabilities_padded(session.arguments, ids, start, [image])[0]
    logits = pinhole.seam.predict(session.arguments, rollouts[0].scored)[0].double()
    entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).detach()
    for source, expected in (("visual dependence", clean - hidden), ("entropy", entropy)):
        (credit, *_) = Credit(source).assign(pinhole, rollouts)
        count = len(rollouts[0].scored)
        np.testing.assert_allclose(credit.scores[:count], expected.numpy()[:count], rtol=1e-4, atol=1e-4)


def test_pictures_are_encoded_once_per_prompt(pinhole, rollouts):
    seen: list[int] = []
    hook = pinhole.model.model.visual.register_forward_hook(lambda *_: seen.append(1))
    try:
        Credit().assign(pinhole, rollouts)
    finally:
        hook.remove()
    assert len(seen) == 2, "three rollouts of two prompts"


def test_one_instrumented_pass_for_the_whole_batch(pinhole, rollouts):
    sizes: list[int] = []
    hook = pinhole.seam.decoder.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(len(kwargs["inputs_embeds"])), with_kwargs=True
    )
    try:
        Credit().assign(pinhole, rollouts)
    finally:
        hook.remove()
    assert sizes[-1] == 3
    assert sum(size == 3 for size in sizes) == 1


def test_responses_that_cannot_be_credited_keep_the_weight_one_and_say_why(pinhole, traces, rollouts):
    whole = rollouts[0]
    start, tokenizer = whole.prompt_length, pinhole.processor.tokenizer
    seen = {name: value for name, value in whole.inputs.items() if name not in ("input_ids", "attention_mask")}

    def answered(text: str, end: bool = True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return from_tokens(pinhole, whole.ids[:start], [*ids, tokenizer.eos_token_id] if end else ids, seen)

    batch = [
        answered("The star is red."),
        answered("It is red.\nFinal answer: re", end=False),
        from_tokens(pinhole, whole.ids[:start], [], seen),
        replace(whole, answer=(start,)),
        whole,
    ]
    found = Credit().assign(pinhole, batch)
    reasons = ["no answer", "cut off", "empty", "nothing before the answer", "assigned"]
    assert [credit.status for credit in found] == reasons
    for credit, rollout in zip(found[:-1], batch, strict=False):
        assert credit.weights.tolist() == [1.0] * len(rollout.response)
        assert np.isnan(credit.scores).all()


def test_without_a_picture_only_visual_dependence_has_nothing_to_say(pinhole, rollouts):
    tokenizer = pinhole.processor.tokenizer
    prompt = tokenizer("<|im_start|>user\nWhat is red?<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
    response = [*tokenizer(REASONED)["input_ids"], tokenizer.eos_token_id]
    plain = from_tokens(pinhole, prompt, response, {}, ["What is red?"])
    assert plain.question
    for source in SOURCES:
        credit, with_picture = Credit(source).assign(pinhole, [plain, rollouts[0]])
        assert with_picture.status == "assigned"
        assert credit.status == ("no picture" if source == "visual dependence" else "assigned")


def test_numbers_that_are_not_finite_give_neutral_weights(pinhole, rollouts):
    def spoil(module, args, output):
        return (torch.full_like(output[0], float("nan")), *output[1:])

    hook = pinhole.seam.decoder.layers[2].self_attn.register_forward_hook(spoil)
    try:
        for source in ("vtrace", "vtrace-ordered", "entropy"):
            found = Credit(source).assign(pinhole, rollouts)
            assert {credit.status for credit in found} == {"not finite"}
            assert all((credit.weights == 1.0).all() for credit in found)
    finally:
        hook.remove()


def test_a_sampled_image_token_does_not_stop_the_batch(pinhole, rollouts):
    odd = rollouts[0]
    ids = list(odd.ids)
    ids[odd.prompt_length + 1] = pinhole.image_token_id
    (credit,) = Credit().assign(pinhole, [replace(odd, ids=tuple(ids))])
    assert credit.status == "assigned"


def test_the_model_is_left_as_it_was(pinhole, rollouts):
    before = {name: value.clone() for name, value in pinhole.model.state_dict().items()}
    pinhole.model.train()
    pinhole.model.model.visual.eval()  # as of a frozen tower
    modes = [module.training for module in pinhole.model.modules()]
    try:
        Credit().assign(pinhole, rollouts)
        assert [module.training for module in pinhole.model.modules()] == modes
    finally:
        pinhole.model.eval()
    assert pinhole.seam.decoder.config._attn_implementation == "sdpa"
    assert all(torch.equal(value, before[name]) for name, value in pinhole.model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "magic"}, "unknown source 'magic'; use one of: vtrace, "),
        ({"rule": "best"}, "unknown rule"),
        ({"tokens_at_once": 0}, "tokens_at_once is 0"),
        ({"source": "random", "seed": -1}, "seed is -1"),
    ],
)
def test_options_are_checked_before_training(options, message):
    with pytest.raises(InputError, match=message):
        Credit(**options)


class Hidden(torch.nn.Module):
    """A wrapper that does not say what is inside."""

    def __init__(self, model):
        super().__init__()
        self.inner = model


def test_a_wrapper_that_hides_the_decoder_is_refused_before_training(pinhole):
    with pytest.raises(ModelError, match="hides the model"):
        policy_of(Hidden(pinhole.model), pinhole.processor)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # of what torch.compile imports
def test_wrappers_that_are_known_are_opened(pinhole):
    compiled = torch.compile(pinhole.model)
    assert policy_of(compiled, pinhole.processor).model is pinhole.model


def test_a_family_that_cannot_be_captured_is_refused_before_training(pinhole):
    config = transformers.MllamaConfig()
    with pytest.raises(ModelError, match="cross-attention"):
        policy_of(SimpleNamespace(config=config), pinhole.processor)


def test_a_policy_with_another_kernel_is_read_through_sdpa(pinhole, rollouts):
    """Trainers load models with kernels that need a GPU, or that give no room for a mask."""
    text = pinhole.model.config.get_text_config()
    expected = Credit().assign(pinhole, rollouts)
    text._attn_implementation = "flash_attention_2"
    try:
        found = Credit().assign(pinhole, rollouts)
        assert text._attn_implementation == "flash_attention_2"
    finally:
        text._attn_implementation = "sdpa"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
