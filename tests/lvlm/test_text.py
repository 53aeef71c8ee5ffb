"""Text-only decoders: prompt words are attributed through the same seam, and there is nothing to calibrate."""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForCausalLM

import vtrace
from oracles import algorithm
from oracles.states import literal_states
from support import families, family_parts, hybrid_families
from support.comparing import check_likelihoods, check_writes
from vtrace.benchmarks.benchmark import Benchmark
from vtrace.errors import InputError, ModelError
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.lvlm.families.text import STATE_SPACE_TEXT, TEXT_FAMILIES
from vtrace.lvlm.mixer import mixer_of
from vtrace.methods.session import TraceSession
from vtrace.tracing.perturbation import Perturbation
from vtrace.tracing.prompt import encode_trace
from vtrace.types import Example

QUESTION, RESPONSE = "Where is the red star?", "It is above the cross.\nFinal answer: above"
OWN = {
    "smollm3": dict(no_rope_layers=[1, 0]),
    "qwen2_moe": dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32
    ),
    "qwen3_moe": family_parts.MOE,
    "mistral": dict(sliding_window=16),
    "nemotron_h": hybrid_families.NEMOTRON,
    "bamba": hybrid_families.MAMBA | dict(attn_layer_indices=[1], mamba_n_groups=2),
    "granitemoehybrid": hybrid_families.MAMBA
    | dict(
        layer_types=["mamba", "attention", "mamba"],
        mamba_n_groups=1,
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=32,
        residual_multiplier=0.4,
        attention_multiplier=0.2,
        embedding_multiplier=3.0,
        logits_scaling=2.0,
    ),
    "lfm2": hybrid_families.CONVOLUTIONS,
    "lfm2_moe": hybrid_families.CONVOLUTIONS | family_parts.MOE | dict(num_dense_layers=1),
    "gemma2": dict(
        sliding_window=16, query_pre_attn_scalar=16, attn_logit_softcapping=2.0, final_logit_softcapping=5.0
    ),
    "gpt_oss": dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=16),
    "qwen3_next": hybrid_families.DELTA | family_parts.MOE | dict(shared_expert_intermediate_size=32),
    "qwen3_5_text": hybrid_families.DELTA,
    "qwen3_5_moe_text": hybrid_families.DELTA | family_parts.MOE | dict(shared_expert_intermediate_size=32),
}


def modelling_file(kind: str):
    return import_module(f"transformers.models.{kind}.modeling_{kind}")


@pytest.fixture(scope="module", params=[kind for family in TEXT_FAMILIES for kind in family.model_types])
def folder(request, tmp_path_factory):
    if request.param in STATE_SPACE_TEXT.model_types and not hasattr(
        modelling_file(request.param), "mamba2_chunk_scan"
    ):
        pytest.skip("this version of transformers computes Mamba-2 inside its layers")
    torch.manual_seed(4)
    words = family_parts.tokenizer()
    config = AutoConfig.for_model(request.param, **family_parts.text_config(words, **OWN.get(request.param, {})))
    if request.param.startswith("qwen2"):  # these take the size of a head from the width
        config = AutoConfig.for_model(
            request.param,
            **family_parts.text_config(
                words, num_attention_heads=3, num_key_value_heads=1, **OWN.get(request.param, {})
            ),
        )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    families.randomise(model)
    place = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(place)
    words.chat_template = family_parts.template("")
    words.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def lvlm(folder):
    return vtrace.load(folder)


@pytest.fixture(scope="module")
def trace(lvlm):
    return vtrace.trace(lvlm, [], QUESTION, response=RESPONSE, system="Be brief.")


def test_the_prompt_is_read_in_its_parts(trace):
    assert [w.text for w in trace.words if w.kind == "question"] == ["Where", "is", "the", "red", "star", "?"]
    assert not trace.patches
    assert trace.answer_text == "above"
    assert "system\nBe brief.<|im_end|>" in trace.text


def test_the_seam_gives_the_models_own_likelihoods(lvlm, trace):
    check_likelihoods(lvlm, trace)


def test_the_fast_path_equals_the_literal_twin(lvlm, trace):
    session = TraceSession.open(lvlm, trace)
    fast = session.pairwise().dense()
    states, gates = literal_states(lvlm, lambda: encode_trace(lvlm, trace))
    slow = algorithm.pairwise(*states, [], trace.positions("question"), centre=False, gates=gates)
    plain = session.pairwise(centring=False).dense()
    torch.testing.assert_close(plain, slow, rtol=2e-3, atol=1e-4 * float(slow.max()))
    assert not torch.allclose(fast, plain)  # question words are centred


@torch.no_grad()
def check_layers_that_only_mix(lvlm, layers, arguments):
    """A layer without an MLP of its own gives the residual stream and the update."""
    ends = {}
    for number, layer in enumerate(lvlm.seam.layers):
        if hasattr(layer, "mixer"):
            layer.register_forward_hook(lambda m, args, out, number=number: ends.update({number: (m, out[0])}))
    lvlm.seam.decoder(**arguments)
    for number, (layer, end) in ends.items():
        layer._forward_hooks.clear()
        torch.testing.assert_close(layers[number].residual + layers[number].update, end)


def test_writes_of_all_heads_and_sources_rebuild_the_update_of_every_layer(lvlm, trace):
    layers, decoder, arguments = [], lvlm.seam.decoder, encode_trace(lvlm, trace)
    with torch.no_grad(), lvlm.seam.capture(layers.append):
        watched = decoder(**arguments).last_hidden_state
    check_writes(lvlm, layers)
    check_layers_that_only_mix(lvlm, layers, arguments)
    with torch.no_grad():
        torch.testing.assert_close(decoder(**arguments).last_hidden_state, watched)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in decoder.modules())
    files = {sys.modules[type(mixer_of(layer).module).__module__] for layer in lvlm.seam.layers}
    assert not any(isinstance(function, partial) for file in files for function in vars(file).values())


def test_mamba_that_cannot_be_watched_is_refused_in_one_line(lvlm, trace, monkeypatch):
    if lvlm.family is not STATE_SPACE_TEXT:
        return
    monkeypatch.delattr(modelling_file(lvlm.model.config.model_type), "mamba2_chunk_scan")
    with pytest.raises(ModelError, match="cannot be read with this version of transformers; update it"):
        vtrace.attribute(lvlm, trace)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in lvlm.seam.decoder.modules())


def test_an_attribution_is_of_words_alone_and_says_why_it_is_not_calibrated(lvlm, trace, tmp_path):
    found = vtrace.attribute(lvlm, trace, "answer")
    assert found.image_share == 0
    assert found.text_share == pytest.approx(1)
    assert found.calibration.status == "skipped: there is no picture to compare the text with"
    assert found.warnings == []
    assert {item.kind for item in found.ranking()} == {"question"}
    np.testing.assert_allclose(found.retarget("response").scores, vtrace.attribute(lvlm, trace).scores, rtol=1e-6)
    for ending in ("json", "html", "png"):
        found.save(tmp_path / f"a.{ending}")
    loaded = vtrace.read(tmp_path / "a.json")
    np.testing.assert_allclose(vtrace.attribute(lvlm, loaded.trace, "answer").scores, found.scores)


def test_other_methods_run_on_text(lvlm, trace):
    methods = ["vtrace", "vtrace-ordered", "ifr", "loo", "rollout", "gradient"]
    found = vtrace.compare(lvlm, trace, methods, "answer", calibrated=True)
    assert set(found.failures) == ({"ifr", "rollout"} if lvlm.seam.hybrid else set())
    assert all("needs softmax attention in all layers" in reason for reason in found.failures.values())
    states = [(), trace.positions("question")]
    whole, without = Perturbation(lvlm, trace).log_probabilities(states).sum(1)
    assert float(whole) != float(without)


def test_a_text_model_generates(lvlm):
    found = vtrace.trace(lvlm, [], QUESTION, max_new_tokens=4)
    assert 1 <= len(found) - found.prompt_length <= 4


def test_a_picture_is_refused(lvlm):
    with pytest.raises(InputError, match="takes no pictures"):
        vtrace.trace(lvlm, Image.new("RGB", (40, 40)), QUESTION)


def test_on_the_command_line(run, folder):
    code, out, err = run("explain", QUESTION, "--model", folder, "--response", RESPONSE, "--json", "-")
    assert code == 0, err
    assert json.loads(out)["calibration"]["status"].startswith("skipped")
    code, out, _ = run("explain", QUESTION, "--model", folder, "--response", RESPONSE)
    assert code == 0
    assert "no picture to compare" in out
    code, _, err = run("explain", "--model", folder)
    assert (code, err.count("\n")) == (2, 1)
    assert "takes no pictures" in err
    code, out, _ = run("doctor", "--model", folder, "--json")
    assert json.loads(out)["plan"]["passes"].startswith("1 forward pass (instrumented),")


def test_faithfulness_of_words_alone_has_no_image_lines(lvlm, tmp_path):
    asked = Example((), QUESTION, "words", "above")
    words = Benchmark("words", 1, lambda number: "words", lambda number: asked, blur=0.25)
    plan = EvaluationPlan(("vtrace", "random"), steps=3, max_new_tokens=8)
    evaluate(lvlm, words, plan, tmp_path)
    table = tabulate(read_run(tmp_path))
    assert {line.setting for line in table.lines} == {"question"}
    (facts,) = table.runs.values()
    assert not facts.failures
    assert not facts.left_out
