"""A GPU gives the numbers of a CPU, in float32 and bfloat16, alone or together with a second one.

Every test also runs with the CPU in place of the GPU, so that its own code is tested where there is no GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vtrace
from support.devices import CARDS, NO_GPU, ONE_GPU, halves, places_of
from vtrace.methods.catalogue import names_of
from vtrace.methods.comparison import rank
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target

DEVICES = ["cpu", pytest.param("cuda", marks=ONE_GPU)]
PAIRS = [("cpu", "cpu"), pytest.param(("cuda:0", "cuda:1"), marks=CARDS)]
FEW = {  # the slow methods, with fewer steps
    "reagent": {"steps": 3, "probes": 2},
    "heta": {"probes": 1},
    "ig": {"steps": 4, "max_steps": 4},
    "glimpse": {"span": "sum"},
}
# Both devices add float32 numbers in their own order: 8 layers of sums over at most 384 numbers, each off by a few
# times 1e-7 of its size. The edges of W pass a softmax and a ReLU, which do not make that larger; 1e-4 of the strongest
# edge leaves room for kernels that add in blocks. TensorFloat-32, with its 10 bits, would not pass, so it is off here.
ROUNDING = 1e-4
# bfloat16 keeps 8 bits, a relative error of 0.4 % at every step. Scores move by a few per cent, so ranks are compared:
# on a CPU, bfloat16 against float32 gives 0.9999 on this example.
SAME_RANKS = 0.99
# A log-probability in bfloat16 is off by about 1 % of the logits, which are below 20.
NATS = 0.5


@pytest.fixture(autouse=True)
def exact_float32(monkeypatch):
    """The vision tower's convolution would use TensorFloat-32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(scope="module")
def pinhole():
    """On the CPU in float32, whatever the machine has."""
    return vtrace.load("pinhole", dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def trace(pinhole):
    return vtrace.trace(pinhole, vtrace.example())


@pytest.fixture(scope="module")
def attribution(pinhole, trace):
    return vtrace.attribute(pinhole, trace)


@pytest.fixture(scope="module")
def session(pinhole, trace):
    return TraceSession.open(pinhole, trace)


def check_methods(session: TraceSession, expected: TraceSession, device: str) -> None:
    """All methods on a GPU; in place of one, those that need little."""
    target = find_target(session.trace, "answer")
    for name in METHODS if device.startswith("cuda") else names_of("instant"):
        found, known = (run_method(name, one, target, **FEW.get(name, {})).scores for one in (session, expected))
        assert np.abs(found - known).max() < 1e-3, name


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(rank(one), rank(other))[0, 1])


@pytest.mark.parametrize("device", DEVICES)
def test_float32_generates_and_explains_as_on_the_cpu(device, trace, attribution):
    lvlm = vtrace.load("pinhole", dtype="float32", device=device)
    assert vtrace.trace(lvlm, vtrace.example()).ids == trace.ids
    found = vtrace.attribute(lvlm, trace)
    strongest = attribution.pairwise.largest
    torch.testing.assert_close(
        found.pairwise.dense().cpu(), attribution.pairwise.dense(), rtol=0, atol=ROUNDING * strongest
    )
    np.testing.assert_allclose(found.likelihoods, attribution.likelihoods, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found.scores, attribution.scores, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_ranks_inputs_as_float32_on_the_cpu(device, trace, attribution):
    found = vtrace.attribute(vtrace.load("pinhole", dtype="bfloat16", device=device), trace)
    assert correlation(found.scores[trace.inputs], attribution.scores[trace.inputs]) > SAME_RANKS
    np.testing.assert_allclose(found.likelihoods[0], attribution.likelihoods[0], rtol=0, atol=NATS)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_every_method_runs_on_the_device_and_agrees_with_the_cpu(device, trace, session):
    lvlm = vtrace.load("pinhole", dtype="float32", device=device)
    check_methods(TraceSession.open(lvlm, trace), session, device)
    assert places_of(lvlm) == {device}


@pytest.mark.slow
@pytest.mark.parametrize("devices", PAIRS)
def test_every_method_runs_on_a_model_spread_over_two_gpus(devices, trace, session):
    lvlm = vtrace.load("pinhole", dtype="float32", device=halves(*devices))
    check_methods(TraceSession.open(lvlm, trace), session, devices[0])
    assert places_of(lvlm) == {devices[0].split(":")[0]}


@pytest.mark.parametrize("devices", PAIRS)
def test_results_of_two_gpus_can_be_shown_and_asked_again(devices, trace, attribution, tmp_path):
    found = vtrace.attribute(vtrace.load("pinhole", dtype="float32", device=halves(*devices)), trace)
    found.save(tmp_path / "page.html")
    found.save(tmp_path / "result.json")
    again = found.retarget("answer")
    np.testing.assert_allclose(again.scores, attribution.retarget("answer").scores, rtol=0, atol=ROUNDING)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_the_batch_size_follows_the_free_memory_of_the_gpu(trace):
    seam = vtrace.load("pinhole", device="cuda").seam
    before = seam.batch_size(len(trace))
    assert before > 1024 // len(trace)
    taken = torch.empty(torch.cuda.mem_get_info()[0] * 3 // 4, dtype=torch.uint8, device="cuda")
    assert seam.batch_size(len(trace)) < before / 2
    del taken


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_a_batch_that_does_not_fit_is_halved_on_a_real_gpu(pinhole, trace, monkeypatch):
    """The estimate is made far too large, and the process may use 1 GB: a real out-of-memory error."""
    lvlm = vtrace.load("pinhole", dtype="float32", device="cuda")
    states = [(p,) for p in trace.inputs]
    expected = TraceSession.open(pinhole, trace).perturbation(0.1).log_probabilities(states)
    perturbation = TraceSession.open(lvlm, trace).perturbation(0.1)
    total = torch.cuda.get_device_properties(0).total_memory
    monkeypatch.setattr("vtrace.lvlm.seam.sequences_at_once", lambda *_: 100 * len(states))
    torch.cuda.set_per_process_memory_fraction(min(1.0, 2**30 / total))
    try:
        found = perturbation.log_probabilities(states * 20)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.testing.assert_close(found[: len(states)].cpu(), expected, rtol=0, atol=1e-3)
