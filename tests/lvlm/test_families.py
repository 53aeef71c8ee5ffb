"""Every supported family, on randomly initialised checkpoints of the real classes: the same claims for all."""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

import vtrace
from oracles import algorithm
from oracles.states import literal_states
from support import families
from support.comparing import check_likelihoods, check_writes
from vtrace.attribution.requirements import examine
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.lvlm.families.llava import FAST_VLM, LLAVA
from vtrace.lvlm.families.paligemma import PALIGEMMA, PALIGEMMA2
from vtrace.lvlm.families.refused import REFUSED
from vtrace.lvlm.families.supported import FAMILIES, family_of, has_pictures, image_text_types
from vtrace.methods.session import TraceSession
from vtrace.tracing.generate import end_tokens
from vtrace.tracing.perturbation import Perturbation
from vtrace.tracing.pictures import blur
from vtrace.tracing.prompt import encode_trace, process, processed_prompt, trace_inputs

SIZE = (75, 50)
QUESTION, RESPONSE = "Where is the red star?", "It is there.\nFinal answer: there"


@pytest.fixture(scope="module", params=families.BUILDERS)
def lvlm(request, tmp_path_factory):
    if request.param == "smolvlm":
        pytest.importorskip("num2words", reason="SmolVLM's own processor asks for num2words")
    return vtrace.load(families.write(request.param, tmp_path_factory.mktemp(request.param)))


def noise(width: int, height: int, seed: int) -> Image.Image:
    pixels = torch.randint(0, 256, (height, width, 3), generator=torch.Generator().manual_seed(seed))
    return Image.fromarray(pixels.to(torch.uint8).numpy())


def picture(seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    return noise(size[0] // 5, size[1] // 5, seed).resize(size, Image.Resampling.BICUBIC)


def asked(lvlm, image: Image.Image):
    return vtrace.trace(lvlm, image, QUESTION, response=RESPONSE, system="")


@pytest.fixture(scope="module")
def trace(lvlm):
    return asked(lvlm, picture())


def test_every_family_that_is_listed_is_tested_here():
    built = {builder()[1].model_type for name, builder in families.BUILDERS.items() if name != "smolvlm"} | {"smolvlm"}
    built |= {*families.NEEDING_TORCHVISION, *families.NEEDING_TIMM} - {"molmo2_o"}  # `make test-torchvision`
    assert built == {kind for family in FAMILIES if has_pictures(family) for kind in family.model_types}


def test_the_seam_gives_the_models_own_likelihoods(lvlm, trace):
    check_likelihoods(lvlm, trace)


def test_generation_and_teacher_forcing_give_the_same_likelihoods(lvlm):
    """What is generated cannot see its future; what is read at once must not, either."""
    generate, kept = lvlm.model.generate, []

    def remember(**options):
        kept.append(generate(**options, output_logits=True, return_dict_in_generate=True))
        return kept[0].sequences

    with mock.patch.object(lvlm.model, "generate", remember):
        trace = vtrace.trace(lvlm, picture(), QUESTION, max_new_tokens=6)
    ids, start = torch.tensor(trace.ids), trace.prompt_length
    expected = torch.cat(kept[0].logits).double().log_softmax(-1).gather(1, ids[start:, None])[:, 0]
    found = lvlm.seam.log_probabilities(encode_trace(lvlm, trace), ids, start)[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_memory_is_predicted_from_the_configuration_alone(lvlm, tmp_path):
    lvlm.model.config.save_pretrained(tmp_path)
    facts = examine(str(tmp_path), tokens=1000, dtype="bfloat16")
    assert (facts["supported"], facts["family"]) == (True, lvlm.family.name)
    assert facts["plan"]["weights_bytes"] == 2 * sum(p.numel() for p in lvlm.model.parameters())


def test_the_prompt_is_read_in_its_parts(lvlm, trace):
    question = trace.positions("question")
    assert trace.text[trace.offsets[question[0]][0] : trace.offsets[question[-1]][1]].strip() == QUESTION
    assert [p.position for p in trace.patches] == trace.positions("image")
    assert trace.response == RESPONSE
    covered = [p for p in trace.patches if p.view == 0]
    area = sum((p.box[2] - p.box[0]) * (p.box[3] - p.box[1]) for p in covered)
    cropped = SIZE[1] ** 2 if lvlm.family in (LLAVA, FAST_VLM) else SIZE[0] * SIZE[1]
    assert area == pytest.approx(cropped, rel=0.03)


def after_attention(layer, branch_norm: str):
    """What reads the residual stream after attention; None if the MLP reads what attention reads."""
    after = ("post_attention_layernorm", "input_layernorm")  # the MLP, too, has its norm behind it
    if branch_norm in after and not hasattr(layer, "pre_feedforward_layernorm"):
        return layer.mlp
    names = ("pre_feedforward_layernorm", "post_attention_layernorm")
    return next((getattr(layer, name) for name in names if hasattr(layer, name)), None)


def test_writes_of_all_heads_and_sources_rebuild_the_update_of_every_layer(lvlm, trace):
    layers, middle = [], []
    decoder = lvlm.seam.decoder
    hooks = [
        module.register_forward_pre_hook(lambda m, args: middle.append(args[0][0]))
        for layer in lvlm.seam.layers
        if (module := after_attention(layer, lvlm.family.branch_norm)) is not None
    ]
    arguments = encode_trace(lvlm, trace)
    with torch.no_grad(), lvlm.seam.capture(layers.append):
        decoder(**arguments)
    for hook in hooks:
        hook.remove()
    for layer, after in zip(layers, middle, strict=bool(hooks)):
        torch.testing.assert_close(layer.update, after - layer.residual, rtol=1e-3, atol=1e-4)
    check_writes(lvlm, layers)


def test_a_norm_between_attention_and_residual_can_be_left_out(tmp_path):
    """`hyperclovax_vision_v2`, where it is an option."""
    plain = {"plain": lambda: families.hyperclovax_vision_v2(use_post_norm=False)}
    with mock.patch.dict(families.BUILDERS, plain):
        lvlm = vtrace.load(families.write("plain", tmp_path))
    layers = []
    with torch.no_grad(), lvlm.seam.capture(layers.append):
        lvlm.seam.decoder(**encode_trace(lvlm, asked(lvlm, picture())))
    check_writes(lvlm, layers)


def features(lvlm, arguments, trace) -> torch.Tensor:
    """What shows each position to the decoder, embeddings first and then extras: kinds, sequences, positions, width."""
    embeds, *extras = lvlm.seam.inputs(arguments)
    image, whole = trace.positions("image"), [embeds]
    for extra in extras:
        rows = torch.zeros_like(embeds)
        rows[:, image] = extra[lvlm.seam.extra_rows(arguments, image)].view(len(embeds), len(image), -1)
        whole.append(rows)
    return torch.stack(whole)


@pytest.mark.parametrize("size", [SIZE, (44, 100), (140, 130)])
def test_a_painted_cell_changes_the_feature_of_its_own_token_most(lvlm, size):
    """With attention silenced in the vision tower, which with random weights may move more than the place itself."""
    with silenced(lvlm):
        trace = asked(lvlm, picture(size=size))
        before = features(lvlm, encode_trace(lvlm, trace), trace)[:, 0]
        places = [p for p in trace.patches if p.view == 0 and p.box[2] > p.box[0] + 1 and p.box[3] > p.box[1] + 1]
        rivals = [p.position for p in places]  # the thumbnail, too, shows the place
        for patch in places[:: max(1, len(places) // 4)]:
            painted = trace.images[0].copy()
            left, top, right, bottom = (round(v) for v in patch.box)
            painted.paste(noise(right - left, bottom - top, seed=1), (left, top))
            shown = features(lvlm, encode_trace(lvlm, asked(lvlm, painted)), trace)[:, 0]
            change = (shown - before).norm(dim=(0, -1))
            assert rivals[int(change[rivals].argmax())] == patch.position


def test_with_the_image_padded_the_logits_do_not_depend_on_the_pixels(lvlm, trace):
    ids, start, image = torch.tensor(trace.ids), trace.prompt_length, trace.positions("image")

    def padded(shown, positions):
        return lvlm.seam.log_probabilities(lvlm.seam.pad(encode_trace(lvlm, shown), [positions]), ids, start)

    other = asked(lvlm, picture(seed=5))
    torch.testing.assert_close(padded(trace, image), padded(other, image), rtol=0, atol=0)
    assert not torch.allclose(padded(trace, image[:-1]), padded(other, image[:-1]))


def test_a_perturbation_touches_exactly_the_chosen_tokens(lvlm, trace):
    """With attention silenced in the vision tower, a token's feature depends on its own pixels alone."""
    with silenced(lvlm):
        perturbation = Perturbation(lvlm, trace, radius=0.2)
        clean = lvlm.seam.encode(trace_inputs(lvlm, trace))
        image, question = trace.positions("image"), trace.positions("question")
        border = {p.position for p in trace.patches if p.box[2] <= p.box[0] or p.box[3] <= p.box[1]}  # shows nothing
        states = [[image[0]], [image[-1]], image[1::3], [question[1], image[len(image) // 2]], []]
        found = perturbation.log_probabilities(states)
        batch = perturbation.arguments(states)
        whole = lvlm.seam.log_probabilities(batch, torch.tensor(trace.ids), trace.prompt_length)
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4)  # though what comes first was decoded once for all
    own, other = features(lvlm, clean, trace), features(lvlm, batch, trace)
    for row, state in enumerate(states):
        change = (other[:, row] - own[:, 0]).abs().amax(-1)
        rounding = 1e-5 * own.abs().max()  # batches of another size add up in another order
        touched = (change.amax(0) > torch.maximum(1e-4 * change.max(), rounding)).nonzero()[:, 0].tolist()
        assert touched == sorted(set(state) - border)
        for extra in change[1:]:
            assert (extra > 1e-4).nonzero()[:, 0].tolist() == sorted(set(state) & set(image) - border)


def test_a_perturbed_picture_is_encoded_as_if_it_were_alone(lvlm, trace):
    """Features are shared between states, and tiles of several states encoded in one picture."""
    image = trace.positions("image")
    states = [image[::2], image[:3], [], image[1::3], image]
    perturbation = Perturbation(lvlm, trace, radius=0.2)
    perturbation.log_probabilities(states)
    found = features(lvlm, perturbation.arguments(states), trace)
    soft = process(lvlm, processed_prompt(lvlm, trace).text, blur(trace.images, 0.2))["pixel_values"]
    for row, state in enumerate(states):
        inputs = trace_inputs(lvlm, trace)
        mask = lvlm.family.pixel_mask(inputs, torch.tensor([p in state for p in image]), lvlm.model.config)
        inputs["pixel_values"] = inputs["pixel_values"].where(~mask, soft)
        expected = features(lvlm, lvlm.seam.encode(inputs), trace)[:, 0]
        rounding = 1e-4  # FastVLM's convolutional tower sums over many taps: relative to its largest feature
        if lvlm.model.config.model_type == "fast_vlm":
            rounding *= max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(found[:, row], expected, rtol=1e-4, atol=rounding)


def test_the_fast_path_equals_the_literal_twin(lvlm, trace):
    fast = TraceSession.open(lvlm, trace, keep_layers=False).pairwise().dense()
    states, gates = literal_states(lvlm, lambda: encode_trace(lvlm, trace))
    slow = algorithm.pairwise(*states, trace.positions("image"), trace.positions("question"), gates=gates)
    torch.testing.assert_close(fast, slow, rtol=2e-3, atol=1e-4 * float(slow.max()))


def test_the_model_is_left_as_it_was(lvlm, trace):
    def outside() -> tuple:
        hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in lvlm.model.modules()]
        cached = getattr(getattr(lvlm.model, "model", None), "rope_deltas", None)
        return lvlm.seam.decoder.config._attn_implementation, cached, hooks

    before = {name: value.clone() for name, value in lvlm.model.state_dict().items()}
    kept = outside()
    vtrace.attribute(lvlm, trace)
    Perturbation(lvlm, trace).log_probabilities([trace.positions("image")[:2]])
    assert outside() == kept
    assert all(torch.equal(value, before[name]) for name, value in lvlm.model.state_dict().items())
    assert not any("forward" in vars(m) for m in lvlm.model.modules())


def test_an_attribution_from_end_to_end(lvlm, trace):
    found = vtrace.attribute(lvlm, trace, "answer")
    assert found.image_share + found.text_share == pytest.approx(1)
    assert len(found.ranking()) == len(trace.patches) + sum(w.kind == "question" for w in trace.words)
    generated = vtrace.trace(lvlm, picture(), QUESTION, max_new_tokens=3)
    assert [w.text for w in generated.words if w.kind == "question"] == QUESTION.replace("?", " ?").split()
    assert len(generated) <= generated.prompt_length + 3


def test_two_pictures_in_one_question(lvlm):
    small = picture(2).resize((40, 60))
    found = vtrace.trace(lvlm, [picture(1), small], QUESTION, response=RESPONSE, system="")
    assert [p.position for p in found.patches] == found.positions("image")
    assert {p.image for p in found.patches} == {0, 1}
    for image, size in enumerate((SIZE, small.size)):
        assert max(p.box[2] for p in found.patches if p.image == image) <= size[0] + 1e-6
    perturbation = Perturbation(lvlm, found)
    one, both = ([p.position for p in found.patches if p.image in shown] for shown in ({0}, {0, 1}))
    states = [one, both, []]
    values = perturbation.log_probabilities(states)
    assert torch.isfinite(values).all()
    assert not torch.allclose(values[1], values[2])
    shown = features(lvlm, perturbation.arguments(states), found)
    changes = [(shown[:, row] - shown[:, 2]).abs().amax((0, -1)) > 1e-5 for row in range(2)]
    changed_in_one, changed_in_both = (set(change.nonzero()[:, 0].tolist()) for change in changes)
    assert changed_in_one, "the first picture is blurred"
    assert changed_in_one <= set(one) or lvlm.family.pictures_mix, "and only that one"
    assert changed_in_both - set(one), "the second one, too"
    assert changed_in_both <= set(both)
    assert vtrace.attribute(lvlm, found).image_share > 0


@pytest.mark.skipif("perception_lm" not in families.BUILDERS, reason="needs timm: make test-torchvision")
def test_pictures_that_a_processor_does_not_take_together_are_refused_in_one_line(tmp_path):
    """`perception_lm`, with four tiles and three."""
    lvlm = vtrace.load(families.write("perception_lm", tmp_path))
    with pytest.raises(vtrace.VTraceError, match="does not take these pictures together; give one"):
        vtrace.trace(lvlm, [picture(), picture(size=(90, 30))], QUESTION, response=RESPONSE)


@pytest.mark.skipif("molmo2" not in families.BUILDERS, reason="needs torchvision: make test-torchvision")
def test_a_place_is_hidden_in_all_crops_that_show_it(tmp_path):
    """`molmo2`, whose crops overlap: with all tokens hidden, no patch of any crop is left."""
    lvlm = vtrace.load(families.write("molmo2", tmp_path))
    trace = asked(lvlm, picture())
    inputs = trace_inputs(lvlm, trace)
    assert len(inputs["pixel_values"]) > 2
    everything = torch.ones(len(trace.patches), dtype=torch.bool)
    assert lvlm.family.pixel_mask(inputs, everything, lvlm.model.config).all()


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_explained_is_refused_with_its_reason(kind):
    with pytest.raises(vtrace.VTraceError, match=re.escape(f"cannot be explained: {REFUSED[kind]}")):
        family_of(SimpleNamespace(model_type=kind), kind)


def test_every_image_text_type_of_transformers_is_supported_or_refused_with_a_reason():
    """When transformers adds one, it has to be described here or in `refused.py`."""
    known = {one.model_type: one for one in image_text_types()}
    assert set(known) == set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    supported = {kind for family in FAMILIES if has_pictures(family) for kind in family.model_types}
    assert {kind for kind, one in known.items() if one.supported} == supported & set(known)
    assert not supported & set(REFUSED)
    missing = set(known) - supported - set(REFUSED)
    assert not missing, "describe these types, or say in refused.py why they are not supported"


def test_a_type_that_is_newer_than_this_version_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("vtrace.lvlm.families.supported.listed_types", lambda: ("from_tomorrow",))
    with pytest.raises(vtrace.VTraceError, match="newer than this version of VTrace"):
        family_of(SimpleNamespace(model_type="from_tomorrow"), "a/b")
    assert not {one.model_type: one for one in image_text_types()}["from_tomorrow"].supported


class silenced:
    """While open, attention in the vision tower writes nothing, and convolutions read only what is their own."""

    def __init__(self, lvlm):
        decoder = {id(p) for p in lvlm.seam.decoder.parameters()}
        ends = ("attn.proj", "out_proj", "o_proj", "o_proj.linear", "projection_layer", "attention.output.dense")
        ends += ("token_mixer.proj", "se.fc2")  # timm's; the latter scales by what is everywhere
        local = ("mm_projector", "image_pooling")  # within a token
        tower = {name: p for name, p in lvlm.model.named_parameters() if id(p) not in decoder}
        chosen = {name: p for name, p in tower.items() if not any(part in name for part in local)}
        self.factors = {p: 0.0 for name, p in chosen.items() if name.rpartition(".")[0].endswith(ends)}
        convolutions = [m for m in lvlm.model.modules() if isinstance(m, torch.nn.Conv2d)]
        self.factors |= {m.weight: own_taps(m) for m in convolutions if m.kernel_size > m.stride}
        self.kept = {p: p.detach().clone() for p in self.factors}
        assert self.kept

    @torch.no_grad()
    def __enter__(self):
        for p, factor in self.factors.items():
            p.mul_(factor)

    @torch.no_grad()
    def __exit__(self, *stop):
        for p, value in self.kept.items():
            p.copy_(value)


def own_taps(convolution: torch.nn.Conv2d) -> torch.Tensor:
    """Factors for the taps: 0 unless they read the inputs that an output shares with no other; these are made larger,
    so that about as much comes out."""
    start, count, size = convolution.padding[0], convolution.stride[0], convolution.kernel_size[0]
    taps = torch.zeros(convolution.kernel_size)
    taps[start : start + count, start : start + count] = size / count
    return taps


def test_a_text_without_a_place_for_a_system_prompt_still_gets_it(lvlm):
    template = lvlm.processor.chat_template
    strict = "{%- if messages[0].role == 'system' %}{{- raise_exception('no system role') }}{%- endif %}" + template
    lvlm.processor.chat_template = strict
    try:
        found = vtrace.trace(lvlm, picture(), QUESTION, response=RESPONSE, system="Be brief.")
    finally:
        lvlm.processor.chat_template = template
    assert "Be brief.\n\n" in found.text
    assert "system\n" not in found.text
    assert "brief" not in {w.text for w in found.words if w.kind == "question"}
    assert found.system == "Be brief."


def test_a_model_without_turns_refuses_earlier_ones(lvlm):
    """PaliGemma's prompt is one text behind its pictures."""
    shown = [{"type": "image", "image": picture()}, {"type": "text", "text": QUESTION}]
    chat = [{"role": "user", "content": shown}, {"role": "assistant", "content": "Here."}]
    chat += [{"role": "user", "content": "And the cross?"}, {"role": "assistant", "content": RESPONSE}]
    if lvlm.family not in (PALIGEMMA, PALIGEMMA2):
        assert "And" in {w.text for w in vtrace.trace(lvlm, chat, system="").words if w.kind == "question"}
        return
    with pytest.raises(vtrace.VTraceError, match=r"does not take this conversation: it has no .* earlier turns"):
        vtrace.trace(lvlm, chat, system="Be brief.")


def test_a_batch_of_rollouts_is_credited_like_one_at_a_time(lvlm, trace):
    """Two prompts with pictures of different sizes, and two responses to the first."""
    other = asked(lvlm, picture(seed=1, size=(50, 90)))
    longer = vtrace.trace(lvlm, trace.images[0], QUESTION, response="Look: a star. " + RESPONSE, system="")
    rollouts = [from_trace(lvlm, each) for each in (trace, other, longer)]
    for source in ("vtrace", "vtrace-ordered"):
        together = Credit(source).assign(lvlm, rollouts)
        for rollout, credit in zip(rollouts, together, strict=True):
            (alone,) = Credit(source).assign(lvlm, [rollout])
            assert credit.status == alone.status == "assigned"
            np.testing.assert_allclose(credit.scores, alone.scores, rtol=1e-4, atol=1e-7)
            np.testing.assert_allclose(credit.weights, alone.weights)


def test_prompts_with_hidden_inputs_are_answered_greedily(lvlm):
    """With nothing hidden token by token as by the model's own `generate`, also in a batch with other states."""
    trace = vtrace.trace(lvlm, picture(), QUESTION, max_new_tokens=12)
    frozen, image = list(trace.ids[trace.prompt_length :]), trace.positions("image")
    perturbation = Perturbation(lvlm, trace, radius=0.2)
    states = [image, [], [*image[:3], *trace.positions("question")]]
    hidden, clean, _ = perturbation.generate(states, len(frozen), end_tokens(lvlm))
    assert clean == frozen
    soft = vtrace.trace(lvlm, blur(trace.images, 0.2)[0], QUESTION, max_new_tokens=len(frozen))
    assert hidden == list(soft.ids[soft.prompt_length :])


def test_two_answers_are_contrasted(lvlm, trace):
    """Along the centred writes, or by the gradient where some layers have no attention."""
    found = vtrace.contrast(lvlm, trace, "here")
    assert found.method == ("gradient" if lvlm.seam.hybrid else "vtrace")
    assert np.abs(found.scores[trace.inputs]).sum() == pytest.approx(1)
    if lvlm.seam.hybrid:
        with pytest.raises(vtrace.VTraceError, match="only where all layers have attention; use gradient"):
            vtrace.contrast(lvlm, trace, "here", method="vtrace")
