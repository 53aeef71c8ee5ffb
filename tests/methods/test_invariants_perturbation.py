"""What must hold for methods that change inputs, and for calibration and options whatever the method."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

import vtrace
from oracles.hidden import PlainPasses
from support import families
from support.comparing import close, run
from vtrace.errors import InputError, ModelError
from vtrace.lvlm.families.family import PER_TOKEN
from vtrace.lvlm.replacements import by_masked_lm, by_model, by_unigram
from vtrace.methods import reagent as reagent_module
from vtrace.methods.heta import information, semantic_gate
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.perturbation import Perturbation
from vtrace.tracing.pictures import BLUR, blur
from vtrace.tracing.prompt import encode_trace, trace_inputs
from vtrace.tracing.targets import find_target

# Leave-one-out


@pytest.fixture(scope="module")
def left_out(pinhole_session):
    return run("loo", pinhole_session, sign="signed").scores


def test_leaving_one_out_is_a_loop_over_plain_passes(pinhole, trace, left_out):
    passes = PlainPasses(pinhole, trace)
    image, question = trace.positions("image"), trace.positions("question")
    chosen = (image[0], image[4], image[23], image[-1], question[0], question[3], question[-1])
    expected = {position: float(passes().sum() - passes(position).sum()) for position in chosen}
    found = left_out[list(expected)]
    torch.testing.assert_close(found, torch.tensor([*expected.values()], dtype=torch.float64), rtol=1e-3, atol=1e-4)
    assert not left_out[trace.positions("template", "response")].any()


def test_blurring_no_patch_and_padding_no_word_changes_nothing(session):
    perturbation = Perturbation(session.lvlm, session.trace)
    nothing = perturbation.log_probabilities([(), ()])
    close(nothing, session.clean().expand(2, -1), atol=1e-5)


def test_a_blur_without_radius_gives_every_patch_nothing(session):
    perturbation = Perturbation(session.lvlm, session.trace, radius=0.0)
    image = session.trace.positions("image")
    close(perturbation.log_probabilities([image])[0], session.clean(), atol=1e-5)


def test_blurring_every_patch_is_blurring_the_picture(session):
    perturbation, image = Perturbation(session.lvlm, session.trace), session.trace.positions("image")
    ids, start = session.ids, session.trace.prompt_length
    soft = dataclasses.replace(session.trace, images=tuple(blur(session.trace.images, BLUR)))
    whole = session.seam.log_probabilities(encode_trace(session.lvlm, soft), ids, start)
    close(perturbation.log_probabilities([image]), whole)
    assert (whole[0] - session.clean()).abs().max() > 1e-3


def test_states_in_one_batch_equal_one_at_a_time(session, monkeypatch):
    perturbation = Perturbation(session.lvlm, session.trace)
    image, question = session.trace.positions("image"), session.trace.positions("question")
    states = [image[:5], question[1:3], [image[7], question[0]], ()]
    together = perturbation.log_probabilities(states)
    monkeypatch.setattr("vtrace.lvlm.batch_size.CPU_TOKENS", 1)
    heard = []
    close(perturbation.log_probabilities(states, lambda done, total, label="": heard.append((done, total))), together)
    assert heard == [(4, 4)]


def test_the_tokens_of_a_word_share_what_the_word_loses(random_lvlm):
    example = vtrace.Example(vtrace.example("dev-3").images, "Is it somewhere?")  # a word the tokenizer does not know
    trace = vtrace.trace(random_lvlm, example, response="yes")
    scores = run("loo", TraceSession.open(random_lvlm, trace), slice(0, 1), unit="word", sign="signed").scores
    word = next(w for w in trace.words if w.text == "somewhere")
    tokens = range(word.start, word.stop)
    assert len(tokens) > 1
    whole, without = Perturbation(random_lvlm, trace).log_probabilities([(), tokens])[:, 0]
    expected = torch.full((len(tokens),), float(whole - without) / len(tokens), dtype=torch.float64)
    torch.testing.assert_close(scores[list(tokens)], expected, rtol=1e-3, atol=1e-5)


# ReAGent

QUICK = dict(probes=2, steps=3)


def test_the_same_seed_gives_the_same_scores(session):
    one, again, other = (run("reagent", session, "answer", seed=seed, **QUICK).scores for seed in (4, 4, 5))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not one[session.trace.positions("template", "response")].any()


@pytest.mark.parametrize("scale", ["log", "softmax"])
@pytest.mark.parametrize(("clean", "changed"), [(1.0, 0.0), (0.0, 1.0)])
def test_a_change_of_likelihood_of_one_stays_finite(pinhole_session, clean, changed, scale, monkeypatch):
    def likelihood(session, target, replacer, masked, places):
        return torch.where(masked.any(1), changed, clean).double()

    monkeypatch.setattr(reagent_module, "_likelihood", likelihood)
    found = run("reagent", pinhole_session, "answer", scale=scale, **QUICK)
    assert torch.isfinite(found.scores).all()
    assert found.scores.max() > 0
    assert sum(found.details["softmax"]) == pytest.approx(1)


def test_replacements_are_other_tokens_of_the_vocabulary(session):
    where = session.trace.positions("question")
    size = session.seam.model.get_input_embeddings().num_embeddings
    for sampler in (by_model, by_unigram):
        table = sampler(session.seam, session.arguments, session.ids, where)
        assert table.shape == (len(where), size)
        close(table.sum(1), torch.ones(len(where)))
        assert not table[torch.arange(len(where)), session.ids[where]].any()


def test_chat_tokens_can_be_replaced_too(session):
    """The first position has nothing before it, and chat tokens have ids after all words."""
    table = by_model(session.seam, session.arguments, session.ids, [0, 1, session.trace.prompt_length - 2])
    assert torch.isfinite(table).all()
    close(table.sum(1), torch.ones(3))


def test_a_probe_stops_on_what_it_keeps_alone(pinhole_session, monkeypatch):
    masks = []
    arguments = reagent_module._Replacer.arguments

    def spy(self, masked, places):
        masks.append(masked.clone())
        return arguments(self, masked, places)

    monkeypatch.setattr(reagent_module._Replacer, "arguments", spy)
    found = run("reagent", pinhole_session, "answer", probes=1, steps=1, keep=4)
    clean, drawn, rest = masks
    assert not clean.any()
    assert drawn.any()
    kept = (~rest[0]).nonzero()[:, 0].tolist()
    assert sorted(torch.tensor(found.details["softmax"]).topk(4).indices.tolist()) == kept


def test_probes_stop_when_the_kept_inputs_suffice(pinhole_session):
    """With everything kept nothing is replaced, so a greedy response stays on top."""
    count = len(pinhole_session.inputs)
    found = run("reagent", pinhole_session, "answer", probes=2, steps=5, keep=count)
    assert (found.details["stopped"], found.details["steps"]) == (2, 1)
    more = run("reagent", pinhole_session, "answer", probes=2, steps=2, keep=count, top=0)
    assert (more.details["stopped"], more.details["steps"]) == (0, 2)


@pytest.mark.parametrize("image", ["blur", "shuffle", "pad"])
@pytest.mark.parametrize("sampler", ["model", "unigram"])
def test_every_way_to_replace_runs(session, image, sampler):
    found = run_method("reagent", session, find_target(session.trace, "answer"), image=image, sampler=sampler, **QUICK)
    assert np.isfinite(found.scores).all()
    assert found.image_share + found.text_share == pytest.approx(1)


@pytest.mark.parametrize("image", ["blur", "shuffle", "pad"])
def test_replacing_leaves_all_other_positions_alone(session, image):
    """Where nothing is replaced, embeddings and DeepStack rows are the model's own."""
    replacer = reagent_module._Replacer(session, "model", image, BLUR, torch.Generator().manual_seed(0))
    places = torch.tensor(session.inputs)
    masked = torch.zeros(2, len(places), dtype=torch.bool)
    masked[0, [0, 9, -1]] = True
    embeds, *extras = session.seam.inputs(replacer.arguments(masked, places))
    own, *own_extras = session.seam.inputs(session.arguments)
    assert (embeds[0] != own[0]).any(-1).nonzero()[:, 0].tolist() == sorted(places[[0, 9, -1]].tolist())
    assert torch.equal(embeds[1], own[0])
    assert extras
    for rows, before in zip(extras, own_extras, strict=True):
        first, second = rows.split(len(before))
        assert (first != before).any(-1).nonzero()[:, 0].tolist() == [0, 9]
        assert torch.equal(second, before)


@pytest.mark.parametrize("name", ["gemma4", "granite4_vision", "qwen3_vl"])
def test_what_is_replaced_reaches_the_decoder_as_if_it_had_been_asked(name, tmp_path):
    """Also beside the embeddings: inputs of each layer follow the new words, rows of extras follow their patches."""
    lvlm = vtrace.load(families.write(name, tmp_path))
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (130, 140, 3), dtype=np.uint8))
    trace = vtrace.trace(lvlm, picture, "Where is the red star?", response="It is there.", system="")
    session, words, patches = TraceSession.open(lvlm, trace), trace.positions("question"), trace.positions("image")
    replacer = reagent_module._Replacer(session, "model", "shuffle", BLUR, torch.Generator().manual_seed(0))
    drawn = session.ids[words].roll(1)
    replacer.table = torch.nn.functional.one_hot(drawn, replacer.table.shape[1]).double()
    places = torch.tensor(session.inputs)
    masked = torch.tensor([[True], [False]]).expand(2, len(places))
    found = replacer.arguments(masked, places)
    ids = session.ids.clone()
    ids[words] = drawn
    asked = lvlm.seam.encode({**trace_inputs(lvlm, trace), "input_ids": ids[None]})
    rest = [position for position in range(len(trace)) if position not in patches]
    for argument in [a for a in PER_TOKEN if a in found]:
        close(found[argument][0, rest], asked[argument][0, rest])
        close(found[argument][1], session.arguments[argument][0])
        if argument != "inputs_embeds":
            close(found[argument][0, patches], session.arguments[argument][0, patches])
    own = session.seam.extra_rows(session.arguments, patches)
    rows, before = (
        [arguments["inputs_embeds"][0, patches], *(x[: len(own)][own] for x in session.seam.inputs(arguments)[1:])]
        for arguments in (found, session.arguments)
    )
    order = [int((before[-1] == row).all(1).nonzero()[0, 0]) for row in rows[-1]]
    assert sorted(order) == [*range(len(patches))] != order
    for moved, still in zip(rows, before, strict=True):
        assert torch.equal(moved, still[order])


@pytest.fixture
def masked_lm(tmp_path, trace) -> str:
    """A tiny random BERT that knows the words of the question, and some others, on disk."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    words = sorted({w.text.lower() for w in trace.words if w.kind == "question"} | {"red", "square", "below", "row"})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


def test_a_masked_language_model_proposes_words_of_the_same_length(pinhole, trace, pinhole_session, masked_lm):
    where = trace.positions("question")
    asked = [w for w in trace.words if w.kind == "question"]
    tokenizer = pinhole.processor.tokenizer
    fallback = torch.full((len(where), len(tokenizer)), 1 / len(tokenizer))
    table = by_masked_lm(masked_lm, asked, tokenizer, fallback, where)
    assert table.shape == fallback.shape
    close(table.sum(1), torch.ones(len(where)))
    word = next(w for w in asked if w.text == "purple")
    proposed = {tokenizer.decode([token]).strip() for token in table[where.index(word.start)].nonzero()[:, 0]}
    assert {"red", "square", "circle"} <= proposed
    assert "purple" not in proposed
    found = run_method("reagent", pinhole_session, find_target(trace, "answer"), sampler=masked_lm, **QUICK)
    assert np.isfinite(found.scores).all()


def test_words_beyond_the_masked_models_length_keep_the_models_own_proposals(pinhole, trace, masked_lm):
    from transformers import AutoTokenizer

    reader = AutoTokenizer.from_pretrained(masked_lm)
    reader.model_max_length = 8
    reader.save_pretrained(masked_lm)
    where = trace.positions("question")
    tokenizer = pinhole.processor.tokenizer
    fallback = torch.full((len(where), len(tokenizer)), 1 / len(tokenizer))
    asked = [w for w in trace.words if w.kind == "question"]
    table = by_masked_lm(masked_lm, asked, tokenizer, fallback, where)
    assert torch.equal(table[-1], fallback[-1])
    assert not torch.equal(table[where.index(asked[3].start)], fallback[0])


def test_a_masked_language_model_that_is_not_there_is_named(pinhole_session, tmp_path):
    with pytest.raises(ModelError, match="no-such-model"):
        run_method(
            "reagent",
            pinhole_session,
            find_target(pinhole_session.trace, "answer"),
            sampler=str(tmp_path / "no-such-model"),
            **QUICK,
        )


# HETA


def test_the_gate_sums_to_one_over_what_is_scored(session):
    where = torch.tensor([p - 1 for p in find_target(session.trace, "answer").positions])
    for scored in (session.inputs, session.inputs[5:9]):
        gate = semantic_gate(session, where, scored)
        assert float(gate.sum()) == pytest.approx(1)
        assert (gate >= 0).all()
        assert gate.count_nonzero() == len(scored)


@pytest.mark.parametrize("mask", ["zero", "mean", "pad"])
def test_information_is_never_negative(session, mask):
    few = session.inputs[::9]
    found = information(session, find_target(session.trace, slice(0, 5)), few, mask)
    assert (found >= 0).all()
    assert found[few].max() > 0
    assert not found[[p for p in range(len(found)) if p not in few]].any()


def test_a_mask_that_changes_nothing_has_no_information(session):
    """Padding what is padded already."""
    few = [session.trace.positions("image")[3], session.trace.positions("question")[1]]
    padded = TraceSession(session.seam, session.trace, session.seam.pad(session.arguments, [few]))
    target = find_target(session.trace, slice(0, 5))
    assert float(information(padded, target, few, "pad").max()) == pytest.approx(0, abs=1e-9)
    assert float(information(padded, target, few, "mean").max()) > 1e-9


# Calibration and options, whatever the method


CALIBRATED = [
    "rollout",
    "ifr",
    "flashtrace",
    "flowtracer",
    "attnlrp",
    "alti",
    "alti-logit",
    "chefer",
    "glimpse",
    "cage",
    "attention-multihop",
    "gradient",
    "attention",
    "random",
    "centre",
    "position",
    "vtrace",
]


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_gives_the_image_its_measured_share(pinhole_session, name):
    target = find_target(pinhole_session.trace, "answer")
    found = run_method(name, pinhole_session, target, calibrated=True)
    assert found.calibration.applied
    assert found.image_share == pytest.approx(found.calibration.image_share)
    plain = run_method(name, pinhole_session, target, **({"calibrate": False} if name == "vtrace" else {}))
    np.testing.assert_allclose(found.uncalibrated, plain.scores, rtol=1e-9, atol=1e-12)


def test_signed_scores_are_calibrated_by_their_size(pinhole_session):
    target = find_target(pinhole_session.trace, "answer")
    found = run_method("attnlrp", pinhole_session, target, calibrated=True, sign="signed")
    assert (found.scores < 0).any()
    assert found.image_share == pytest.approx(found.calibration.image_share)
    assert found.options["sign"] == "signed"
    assert found.options["calibrated"]


CHOICES = [
    (name, option)
    for name, method in METHODS.items()
    for option, default in method.options.items()
    if isinstance(default, str) and option != "sampler"
]


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_a_choice_that_does_not_exist_is_refused_by_name(pinhole_session, name, option):
    target = find_target(pinhole_session.trace, "answer")
    with pytest.raises(InputError, match=rf"{name}\.{option} is 'nonsense'"):
        run_method(name, pinhole_session, target, **{option: "nonsense"})


def test_methods_that_change_the_picture_need_the_whole_model(pinhole_session):
    decoder_only = TraceSession(pinhole_session.seam, pinhole_session.trace, pinhole_session.arguments)
    for name in ("loo", "reagent"):
        with pytest.raises(InputError, match=f"{name}: .*needs a whole model"):
            run_method(name, decoder_only, find_target(pinhole_session.trace, "answer"))


def test_numbers_in_the_middle_that_are_not_finite_name_the_method_and_the_layer(session, monkeypatch):
    broken = TraceSession(session.seam, session.trace, session.arguments)
    layers = list(session.layers())
    layers[1] = dataclasses.replace(layers[1], value=torch.full_like(layers[1].value, torch.nan))
    monkeypatch.setattr(broken, "layers", lambda: layers)
    for name in ("ifr", "flashtrace", "alti", "chefer"):
        with pytest.raises(ModelError, match=f"{name}: .*layer 1"):
            run_method(name, broken, find_target(session.trace, "answer"))
