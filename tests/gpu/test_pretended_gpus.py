"""No operation mixes devices: every method with tensors that are only labelled as being on one or two GPUs.

There is no GPU where these tests are written. `support.pretend_gpus` refuses what PyTorch refuses on real ones.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import vtrace
from support.devices import halves
from support.pretend_gpus import PretendGpus, spread
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.credit.sources import SOURCES
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.system.wide_numbers import wide
from vtrace.tracing.targets import find_target

pytestmark = pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")  # there is none
FEW = {
    "reagent": {"steps": 2, "probes": 2},
    "heta": {"probes": 1},
    "ig": {"steps": 2, "max_steps": 2},
}
ONE, TWO = torch.device("cuda:0"), torch.device("cuda:1")


@pytest.fixture(
    scope="module", params=[("cuda:0", "cuda:0"), ("cuda:0", "cuda:1"), ("mps", "mps")], ids=["one", "two", "mac"]
)
def gpus(request, random_lvlm):
    """A model on one pretended GPU, on two, or on one without float64."""
    places = halves(*request.param, depth=len(random_lvlm.seam.decoder.layers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vtrace.lvlm.seam.free_memory", lambda device: 1 << 24)
        yield lambda: spread(random_lvlm.model, places)


@pytest.fixture(scope="module")
def whole(random_lvlm, random_trace):
    return TraceSession.open(random_lvlm, random_trace)


@pytest.fixture
def fresh(random_trace):
    """The trace without what the processor made of it, which is on the CPU."""
    return dataclasses.replace(random_trace, processed=None)


def test_the_stand_in_refuses_what_pytorch_refuses():
    gpus = PretendGpus()
    with gpus:
        one, two = torch.ones(3, device=ONE), torch.ones(3, device=TWO)
        assert (one + torch.ones(())).device == ONE  # a number of the CPU
        assert (one + two.to(ONE)).device == ONE
        assert one[torch.tensor([0])].device == ONE  # an index of the CPU
        one.copy_(two)
        with pytest.raises(RuntimeError, match="same device"):
            one + two
        with pytest.raises(RuntimeError, match="same device"):
            one + torch.ones(3)
        with pytest.raises(RuntimeError, match="same device"):
            one[torch.tensor([0], device=TWO)]
        with pytest.raises(TypeError, match="numpy"):
            one.numpy()
        mac = torch.ones(3, device="mps")
        assert wide(mac).device.type == "cpu"
        for narrow in (mac.double, lambda: torch.zeros(3, dtype=torch.float64, device="mps")):
            with pytest.raises(TypeError, match="does not support float64"):
                narrow()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_no_method_mixes_devices(gpus, name, random_lvlm, fresh, whole):
    target = find_target(fresh, "answer")
    with gpus():
        found = run_method(name, TraceSession.open(random_lvlm, fresh), target, **FEW.get(name, {}))
    expected = run_method(name, whole, target, **FEW.get(name, {}))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)


def test_results_can_be_shown_and_asked_again(gpus, random_lvlm, fresh, whole, tmp_path):
    with gpus():
        found = vtrace.attribute(random_lvlm, fresh)
        found.retarget("answer")
        found.save(tmp_path / "page.html")
        found.save(tmp_path / "result.json")
    expected = run_method("vtrace", whole, find_target(fresh, "response"))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("source", SOURCES)
def test_no_source_of_credit_mixes_devices(gpus, source, random_lvlm, fresh, random_trace):
    with gpus():
        (found,) = Credit(source).assign(random_lvlm, [from_trace(random_lvlm, fresh)])
    (expected,) = Credit(source).assign(random_lvlm, [from_trace(random_lvlm, random_trace)])
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-5)
