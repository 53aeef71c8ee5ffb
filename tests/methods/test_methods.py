"""Every streamed method equals a literal twin, on a trained model and on an awkward random one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import vtrace
from oracles import algorithm, lrp, methods
from oracles.states import cached_states
from vtrace.attribution.attention import BLOCK_BYTES
from vtrace.methods import ifr as ifr_module
from vtrace.methods.heta import block_curvature, information, semantic_gate
from vtrace.methods.ifr import ifr_matrix, row_scores
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.spans import overlapping
from vtrace.tracing.targets import find_target

SPECS = ["response", slice(4, 7)]  # everything, and three tokens of which one is a blank that FlashTrace leaves out


@dataclass(frozen=True)
class Case:
    """One model, one trace, and the states of one eager pass."""

    lvlm: Any
    trace: Any
    session: TraceSession
    states: tuple  # V, a, x_attn, x_pre, Wo

    @property
    def attention(self) -> list[torch.Tensor]:
        return self.states[1]

    def target(self, spec):
        return find_target(self.trace, spec)

    def predictors(self, spec) -> list[int]:
        return [p - 1 for p in self.target(spec).positions]

    def run(self, name, spec, **options):
        """The method's own scores, before they are turned into shares."""
        return METHODS[name].run(self.session, self.target(spec), **options)

    def written_out(self, rule, embeds=None, extras=None) -> torch.Tensor:
        """Logits of the decoder that is written out in float64."""
        arguments = self.session.arguments
        return lrp.logits(
            self.session.seam.decoder,
            self.lvlm.model.lm_head.weight,
            arguments["inputs_embeds"][0] if embeds is None else embeds,
            arguments["position_ids"],
            arguments["deepstack_visual_embeds"] if extras is None else extras,
            arguments["visual_pos_masks"][0],
            rule,
        )


@pytest.fixture(scope="module", params=["pinhole", "random_lvlm"])
def case(request) -> Case:
    lvlm = request.getfixturevalue(request.param)
    trace = request.getfixturevalue("trace" if request.param == "pinhole" else "random_trace")
    session = TraceSession.open(lvlm, trace)
    return Case(lvlm, trace, session, cached_states(lvlm.model, lvlm.seam.decoder, session.arguments))


@pytest.fixture(scope="module")
def rows(case) -> torch.Tensor:
    """IFR by receiver: slow, so once for all tests, and only for what predicts the response where there is more."""
    first = 0 if case.lvlm.name == "random" else case.trace.prompt_length - 1
    every = torch.full((len(case.trace),) * 2, torch.nan, dtype=torch.float64)
    every[first:] = methods.ifr_rows(*case.states, range(first, len(case.trace)))[0]
    return every


@pytest.fixture(scope="module")
def contributions(case) -> list[torch.Tensor]:
    return methods.alti_contributions(*case.states)


def assert_near(found, expected, small=1e-5):
    """Equal to one part in ten thousand, and to `small` of the largest score where scores nearly vanish."""
    found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=small * float(expected.abs().max()))


def test_the_written_out_decoder_is_the_model(case):
    tokens = range(1, len(case.trace))
    with torch.no_grad():
        assert_near(case.session.seam.predict(case.session.arguments, tokens)[0], case.written_out(None)[:-1])


@pytest.mark.parametrize("spec", SPECS)
def test_attention_equals_its_twin(case, spec):
    maps = torch.stack(case.attention).double().mean((0, 1))
    assert_near(case.run("attention", spec).scores, maps[case.predictors(spec)].mean(0))
    last = case.attention[-1].double().mean(0)
    assert_near(case.run("attention", spec, layers="last").scores, last[case.predictors(spec)].mean(0))


@pytest.mark.parametrize("spec", SPECS)
def test_rollout_equals_its_twin(case, spec, monkeypatch):
    expected = methods.rollout(case.attention, case.predictors(spec))
    assert_near(case.run("rollout", spec).scores, expected, small=1e-9)  # its ranking lives in the tail
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 1)  # the smallest blocks, so that several are used
    assert_near(case.run("rollout", spec).scores, expected, small=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_ifr_equals_its_twin(case, rows, spec):
    assert_near(case.run("ifr", spec).scores, rows[case.predictors(spec)].sum(0))
    own = case.run("ifr", spec, receivers="token")
    assert_near(own.scores, rows[list(case.target(spec).positions)].sum(0))


@pytest.mark.parametrize("spec", SPECS)
def test_ifr_of_a_span_equals_its_twin(case, spec):
    receivers = case.predictors(spec)
    expected = methods.ifr_span(*case.states, receivers, [1] * len(receivers))
    assert_near(case.run("ifr", spec, aggregate="span").scores, expected)


def test_ifr_keeps_the_share_of_the_residual(case):
    receivers = case.predictors(slice(4, 7))
    _, expected = methods.ifr_rows(*case.states, receivers)
    _, found = row_scores(case.session, torch.tensor(receivers))
    assert_near(found, expected.mean(0))


def test_ifr_as_a_matrix_is_all_its_rows(case, rows, monkeypatch):
    known = ~rows.isnan().any(1)
    found = ifr_matrix(case.session).T * len(case.session.layers())
    assert_near(found[known], rows.tril(-1)[known])
    assert torch.equal(found, found.tril(-1))
    monkeypatch.setattr(ifr_module, "_CHUNK_BYTES", 1)  # one source at a time
    two = torch.tensor([len(case.trace) - 20, len(case.trace) - 5])
    assert_near(row_scores(case.session, two)[0], rows[two])


@pytest.mark.parametrize("hops", [0, 1, 2])
@pytest.mark.parametrize("bridge", ["generation", "thinking"])
@pytest.mark.parametrize("spec", SPECS)
def test_flashtrace_equals_its_twin(case, spec, bridge, hops):
    trace = case.trace
    end = len(trace) - 1
    question = min(trace.positions("question"))
    pieces = [trace.text[slice(*span)].strip() for span in trace.offsets]
    stop = torch.tensor(
        [
            bridge == "generation" and p >= question and trace.kinds[p] != "image" and pieces[p] in ("", ",", ".")
            for p in range(len(trace))
        ]
    )
    through = {
        "generation": list(range(trace.prompt_length, end)),
        "thinking": overlapping(trace.offsets, trace.reasoning, trace.prompt_length),
    }
    output = [p for p in case.target(spec).positions if p != end]
    observed = torch.arange(len(trace)) < trace.prompt_length
    expected, reaches = methods.flashtrace(*case.states, output, through[bridge], observed, stop, hops)
    found = case.run("flashtrace", spec, bridge=bridge, hops=hops, receivers="token")
    assert_near(found.scores, expected)
    assert_near(found.details["carried_on"], reaches)


@pytest.mark.parametrize("spec", SPECS)
def test_flowtracer_equals_its_twin(case, spec):
    depth, answer = len(case.session.layers()), case.predictors(spec)
    layers = range(round(depth / 3), round(2 * depth / 3))
    capacity = methods.flow_capacity(case.attention, layers)
    expected = methods.flowtracer_flow(capacity, answer, case.session.inputs)
    assert_near(case.run("flowtracer", spec, mode="reach").scores, expected["h"], small=1e-9)
    assert_near(case.run("flowtracer", spec, mode="flow").scores, expected["throughput"], small=1e-9)
    direct = run_method("flowtracer", case.session, case.target(spec), mode="direct")
    shares = methods.flowtracer_direct(capacity, answer)
    assert_near(direct.scores, shares / shares[case.session.inputs].sum())
    assert direct.details["layers"] == [layers[0], layers[-1]]


def test_flowtracer_over_other_layers_and_at_the_tokens_equals_its_twin(case):
    spec = slice(4, 7)
    capacity = methods.flow_capacity(case.attention, range(len(case.session.layers()) - 1, len(case.session.layers())))
    expected = methods.flowtracer_reach(capacity, case.target(spec).positions)
    found = case.run("flowtracer", spec, first_layer=0.9, last_layer=1.0, receivers="token")
    assert_near(found.scores, expected, small=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_alti_equals_its_twin(case, contributions, spec):
    assert_near(case.run("alti", spec).scores, methods.alti(contributions, case.predictors(spec)))


@pytest.mark.parametrize("spec", SPECS)
def test_alti_logit_equals_its_twin(case, contributions, spec):
    target, decoder = case.target(spec), case.session.seam.decoder
    seen = []
    handle = decoder.norm.register_forward_pre_hook(lambda module, args: seen.append(args[0][0].double()))
    with torch.no_grad():
        decoder(**case.session.arguments)
    handle.remove()
    size = (seen[0].pow(2).mean(-1) + decoder.norm.variance_epsilon).sqrt()
    reads = case.lvlm.model.lm_head.weight.detach().double() * decoder.norm.weight.detach().double()
    readings = [(p - 1, reads[case.trace.ids[p]] / size[p - 1]) for p in target.positions]
    expected = methods.alti_logit(*case.states, contributions, readings)
    found = case.run("alti-logit", spec, sign="signed")
    assert_near(found.scores, expected)
    logits = case.written_out(None)
    assert_near(found.details["target_logits"], sum(logits[p - 1, case.trace.ids[p]] for p in target.positions))


def gradients_of_weights(case, spec, each: bool) -> Iterator[list[torch.Tensor]]:
    """dz/da from an eager pass, of each target logit or of their sum; only weights that exist have a gradient here."""
    decoder, positions = case.session.seam.decoder, case.target(spec).positions
    before, decoder.config._attn_implementation = decoder.config._attn_implementation, "eager"
    try:
        output = decoder(**case.session.arguments, output_attentions=True)
    finally:
        decoder.config._attn_implementation = before
    logits = case.lvlm.model.lm_head(output.last_hidden_state[0])
    chosen = [logits[p - 1, case.trace.ids[p]] for p in positions]
    for z in chosen if each else [sum(chosen)]:
        found = torch.autograd.grad(z, output.attentions, retain_graph=True)
        yield [g[0].tril() for g in found]


@pytest.mark.parametrize("spec", SPECS)
def test_chefer_equals_its_twin(case, spec):
    (gradients,) = gradients_of_weights(case, spec, each=False)
    assert_near(case.run("chefer", spec).scores, methods.chefer(case.attention, gradients, case.predictors(spec)))


def test_chefer_token_by_token_equals_its_twin(case):
    spec = slice(4, 7)
    parts = zip(gradients_of_weights(case, spec, each=True), case.predictors(spec), strict=True)
    expected = sum(methods.chefer(case.attention, gradients, [receiver]) for gradients, receiver in parts)
    assert_near(case.run("chefer", spec, span="tokens").scores, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_glimpse_equals_its_twin(case, spec):
    target = case.target(spec)
    shares = case.written_out(None).softmax(-1)
    expected = methods.glimpse(
        case.attention,
        gradients_of_weights(case, spec, each=True),
        case.predictors(spec),
        case.trace.positions("image"),
        case.trace.positions("question"),
        [shares[p - 1, case.trace.ids[p]] for p in target.positions],
    )
    # the published sum doubles R in every layer; only relative values matter, and ours leaves the doubling out
    assert_near(case.run("glimpse", spec).scores * 2 ** len(case.session.layers()), expected)


def mean_attention(case) -> torch.Tensor:
    return torch.stack(case.attention).double().mean((0, 1)).tril(-1).T


@pytest.mark.parametrize("base", ["vtrace", "ifr", "attention"])
@pytest.mark.parametrize("spec", SPECS)
def test_cage_equals_its_twin(case, spec, base):
    matrices = {
        "vtrace": case.session.pairwise().dense(),
        "ifr": ifr_matrix(case.session),
        "attention": mean_attention(case),
    }
    generated = range(case.trace.prompt_length, len(case.trace))
    expected = methods.cage(matrices[base], case.predictors(spec), generated)
    assert_near(case.run("cage", spec, base=base).scores, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_all_paths_over_other_matrices_are_the_papers_sum(case, spec):
    target, inputs = case.target(spec), case.session.inputs
    for name, matrix in {"ifr-multihop": ifr_matrix(case.session), "attention-multihop": mean_attention(case)}.items():
        _, expected = algorithm.scores(matrix, case.predictors(spec), 0.5)
        found = run_method(name, case.session, target)
        assert_near(found.scores, expected / expected[inputs].sum())


@pytest.mark.parametrize("spec", SPECS)
def test_vtrace_among_the_methods_is_vtrace(case, spec):
    expected = vtrace.attribute(case.lvlm, case.trace, spec)
    assert_near(run_method("vtrace", case.session, case.target(spec)).scores, expected.scores)


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
@pytest.mark.parametrize("spec", SPECS)
def test_relevance_equals_the_rules_written_out(case, spec, rule):
    arguments, positions = case.session.arguments, case.target(spec).positions
    expected = lrp.relevance(
        case.session.seam.decoder,
        case.lvlm.model.lm_head.weight,
        arguments["inputs_embeds"][0],
        arguments["position_ids"],
        arguments["deepstack_visual_embeds"],
        arguments["visual_pos_masks"][0],
        rule,
        [(p - 1, case.trace.ids[p]) for p in positions],
    )
    found = case.run("attnlrp", spec, rule=rule, sign="signed")
    assert_near(found.scores, expected)
    logits = case.written_out(rule)
    assert_near(found.details["target_logits"], sum(logits[p - 1, case.trace.ids[p]] for p in positions))


@pytest.mark.parametrize("spec", SPECS)
def test_gradient_times_input_equals_the_decoder_written_out(case, spec):
    arguments = case.session.arguments
    expected = lrp.relevance(
        case.session.seam.decoder,
        case.lvlm.model.lm_head.weight,
        arguments["inputs_embeds"][0],
        arguments["position_ids"],
        arguments["deepstack_visual_embeds"],
        arguments["visual_pos_masks"][0],
        None,
        [(p - 1, case.trace.ids[p]) for p in case.target(spec).positions],
    )
    assert_near(case.run("gradient", spec, sign="signed").scores, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_the_gate_of_heta_equals_its_twin(case, spec):
    V, a, _, _, Wo = case.states
    receivers = case.predictors(spec)
    expected = methods.heta_gate(V, a, Wo, receivers, case.session.inputs)
    assert_near(semantic_gate(case.session, torch.tensor(receivers), case.session.inputs), expected, small=1e-7)


def some_inputs(case) -> list[int]:
    image, question = case.trace.positions("image"), case.trace.positions("question")
    return [image[0], image[20], question[1], question[3]]


@pytest.mark.parametrize("mask", ["zero", "mean", "pad"])
def test_the_information_of_heta_equals_its_twin(case, mask):
    spec, scored = slice(1, 3), some_inputs(case)  # a colour and a shape that the question names
    embeds, where = case.session.arguments["inputs_embeds"][0], case.predictors(spec)
    pad = case.lvlm.model.get_input_embeddings().weight[case.lvlm.seam.pad_id].detach()
    fill = {"zero": torch.zeros_like(pad), "mean": embeds.mean(0), "pad": pad}[mask]
    clean = case.written_out(None)[where]
    expected = torch.zeros(len(case.trace), dtype=torch.float64)
    for p in scored:
        masked, rows = embeds.clone(), [x.clone() for x in case.session.arguments["deepstack_visual_embeds"]]
        masked[p] = fill
        for x in rows:
            x[[k for k, q in enumerate(case.trace.positions("image")) if q == p]] = 0
        expected[p] = methods.kl(clean, case.written_out(None, masked, rows)[where]).mean()
    assert_near(information(case.session, case.target(spec), scored, mask), expected)


@pytest.mark.parametrize("case", ["random_lvlm"], indirect=True)
def test_the_curvature_of_heta_is_the_blocks_of_the_hessian(case):
    """All second derivatives of the float64 decoder: only where they are few."""
    spec = slice(4, 7)
    scored = [case.trace.positions("image")[20], case.trace.positions("question")[-1]]
    embeds, positions = case.session.arguments["inputs_embeds"][0].double(), case.target(spec).positions
    where, ids = torch.tensor(positions) - 1, case.session.ids[list(positions)]

    def objective(x):
        logs = case.written_out(None, embeds.index_copy(0, torch.tensor(scored), x)).log_softmax(-1)
        return logs[where, ids].mean()

    probes, seed = 3, 5
    drawn = torch.randint(0, 2, (2, probes, embeds.shape[1]), generator=torch.Generator().manual_seed(seed)) * 2 - 1
    expected = methods.heta_curvature(objective, embeds[scored], [0, 1], drawn.transpose(0, 1))
    target = case.target(spec)
    exact = block_curvature(case.session, target, scored, probes, True, 1e-2, seed)
    assert_near(exact[scored], expected)
    assert exact.count_nonzero() == len(scored)
    finite = block_curvature(case.session, target, scored, probes, False, 1e-2, seed)
    torch.testing.assert_close(finite[scored], expected, rtol=2e-2, atol=0)


def test_curvature_by_differences_is_near_the_exact_one(case):
    target, scored = case.target(slice(4, 7)), some_inputs(case)
    exact = block_curvature(case.session, target, scored, 1, True, 1e-2, 0)
    finite = block_curvature(case.session, target, scored, 1, False, 1e-2, 0)
    torch.testing.assert_close(finite, exact, rtol=5e-2, atol=1e-3 * float(exact.max()))


def test_heta_is_gate_times_curvature_and_information(case, monkeypatch):
    few, target = some_inputs(case)[1:3], case.target(slice(4, 7))
    monkeypatch.setattr(TraceSession, "inputs", property(lambda session: few))
    found = METHODS["heta"].run(case.session, target, probes=2, beta=0.3, gamma=0.7, seed=3)
    gate = semantic_gate(case.session, torch.tensor(case.predictors(slice(4, 7))), few)
    bends = block_curvature(case.session, target, few, 2, True, 0, 3)
    expected = gate * (0.3 * bends + 0.7 * information(case.session, target, few))
    assert_near(found.scores, expected)
    assert_near(found.details["gate"], gate[few])
