"""Replies that are generated side by side are those of one at a time, whatever shares the batch."""

from __future__ import annotations

import pytest
import torch

import vtrace
from support import families
from support.pictures import noise
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError, ModelError
from vtrace.lvlm.side_by_side import decode_side_by_side
from vtrace.tracing import batch
from vtrace.tracing.batch import Asked, generate_replies
from vtrace.tracing.defaults import SYSTEM_PROMPT
from vtrace.tracing.example import as_example, tidy
from vtrace.tracing.prompt import process_prompt
from vtrace.tracing.reply import end_tokens, generate_reply
from vtrace.types import Example

SHAPES = find_benchmark("shapes-dev")


def asked(lvlm, example: Example, budget: int = 300, system: str = SYSTEM_PROMPT) -> Asked:
    return Asked(process_prompt(lvlm, tidy(example), system), budget)


@pytest.fixture(scope="module", params=["pinhole", "pinhole-internvl"])
def lvlm(request):
    return vtrace.load(request.param)


@pytest.fixture(scope="module")
def mixed(lvlm) -> list[Asked]:
    """Questions of different lengths about pictures of different grids, and one about two pictures."""
    examples = [SHAPES.example(number) for number in range(9)]
    sizes = [(224, 224), (160, 288), (320, 128)]
    examples += [as_example(e.images[0].resize(size), e.question) for e, size in zip(examples, sizes, strict=False)]
    examples += [as_example([examples[0].images[0], examples[1].images[0]], examples[0].question)]
    return [asked(lvlm, example) for example in examples]


@pytest.fixture(scope="module")
def one_at_a_time(lvlm, mixed):
    return [generate_reply(lvlm, *each) for each in mixed]


@pytest.mark.parametrize("together", [1, 4, 16])
def test_a_batch_gives_the_replies_of_one_at_a_time(lvlm, mixed, one_at_a_time, together):
    assert len({len(each.prompt.ids) for each in mixed}) > 3
    assert generate_replies(lvlm, mixed, together) == one_at_a_time


def test_every_row_is_cut_at_its_own_end(lvlm, mixed, one_at_a_time):
    """By its end token or by its budget, not by those of the rows beside it."""
    budgets = [1, 5, 300, 12]
    found = generate_replies(lvlm, [each._replace(budget=n) for each, n in zip(mixed, budgets, strict=False)])
    for reply, budget, whole in zip(found, budgets, one_at_a_time, strict=False):
        assert reply.ids == whole.ids[:budget]
        assert reply.finish == ("stop" if len(whole.ids) <= budget else "length")
        assert sum(token in end_tokens(lvlm) for token in reply.ids) == (reply.finish == "stop")


def test_the_model_is_left_as_it_was(lvlm, mixed):
    before = lvlm.seam.decoder.config._attn_implementation
    answers = decode_side_by_side(lvlm, [(each.prompt.inputs, each.budget) for each in mixed[:0]], set(), 4)
    assert list(answers) == []
    generate_replies(lvlm, mixed[:3])
    assert lvlm.seam.decoder.config._attn_implementation == before


def test_a_batch_for_which_memory_does_not_suffice_is_halved(pinhole, monkeypatch):
    """What has been finished is kept, and only a prompt that does not fit alone is given up."""
    tried = []

    def scarce(lvlm, prompts, stops, together):
        tried.append((len(prompts), together))
        if together > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        for answer in decode_side_by_side(lvlm, prompts, stops, together):
            if len(prompts[answer.number].inputs["input_ids"][0]) == longest:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            yield answer

    monkeypatch.setattr(batch, "decode_side_by_side", scarce)
    prompts = [asked(pinhole, SHAPES.example(number), 8) for number in range(3)]
    longest = max(len(each.prompt.ids) for each in prompts)
    found = generate_replies(pinhole, prompts, 8)
    lost = [isinstance(reply, ModelError) and "out of memory" in str(reply) for reply in found]
    assert lost == [len(each.prompt.ids) == longest for each in prompts]
    assert tried[:3] == [(3, 8), (3, 4), (3, 2)]


def test_an_empty_reply_is_an_error_of_its_own_row(pinhole, monkeypatch):
    end = pinhole.processor.tokenizer.eos_token_id
    prompts = [asked(pinhole, SHAPES.example(number), 6) for number in range(2)]
    monkeypatch.setattr(batch, "decode_side_by_side", lambda *a: iter([(1, [end]), (0, [5, end])]))
    good, empty = generate_replies(pinhole, prompts)
    assert (good.ids, good.finish) == ([5, end], "stop")
    assert isinstance(empty, InputError)


def test_a_checkpoint_with_rules_of_its_own_is_asked_one_at_a_time(pinhole, monkeypatch):
    prompts = [asked(pinhole, SHAPES.example(number), 20) for number in range(2)]
    first = generate_replies(pinhole, prompts)[0].ids[0]
    monkeypatch.setattr(pinhole.model.generation_config, "suppress_tokens", [first])
    replies = generate_replies(pinhole, prompts)
    assert first not in replies[0].ids
    assert replies == [generate_reply(pinhole, *each) for each in prompts]


@pytest.mark.slow
@pytest.mark.parametrize("family", families.BUILDERS)
def test_every_family_generates_the_same_in_a_batch(family, tmp_path):
    """Random weights hardly prefer one token, so a step counts only if the model's own logits do not tie."""
    if family == "smolvlm":
        pytest.importorskip("num2words", reason="SmolVLM's own processor asks for num2words")
    lvlm = vtrace.load(families.write(family, tmp_path))
    questions = ["Where is the red star?", "Is it?", "What is there, and what is not?"]
    sizes = [(75, 50), (40, 64), (75, 50)]
    prompts = [
        asked(lvlm, as_example(noise(size, seed), question), 10, system="")
        for seed, (size, question) in enumerate(zip(sizes, questions, strict=True))
    ]
    for each, reply in zip(prompts, generate_replies(lvlm, prompts, 2), strict=True):
        out = lvlm.model.generate(
            **each.prompt.inputs,
            max_new_tokens=10,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        expected = out.sequences[0, len(each.prompt.ids) :].tolist()
        margins = [float(-torch.diff(logits[0].float().topk(2).values)) for logits in out.logits]
        sure = next((k for k, margin in enumerate(margins) if margin < 1e-4), len(expected))
        assert sure >= 3
        assert reply.ids[:sure] == expected[:sure]
