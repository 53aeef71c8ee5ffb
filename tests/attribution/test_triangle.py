"""W as blocks of receivers: in memory or in a file, scores are the same, and every block is read once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import vtrace
from oracles import algorithm
from vtrace.attribution.attention import kind_of
from vtrace.attribution.memory_plan import plan_memory, working_bytes
from vtrace.attribution.multihop import log_scores
from vtrace.attribution.triangle import BLOCK, Triangle, block_rows, edge_count
from vtrace.errors import InputError
from vtrace.lvlm.batch_size import Workload, workload_of
from vtrace.lvlm.model import Lvlm
from vtrace.methods import session as session_module
from vtrace.methods.session import TraceSession
from vtrace.system.scratch_file import ScratchFile

LENGTH = 2 * BLOCK + 45


def random_edges(kind: str, length: int = LENGTH) -> torch.Tensor:
    """Source by receiver: few edges; so many that path sums need exponents; or a chain that underflows."""
    torch.manual_seed(1)
    if kind == "weak chain":
        edges = torch.zeros(length, length)
        edges[range(length - 1), range(1, length)] = 1e-5
        edges[0, 1] = 1.0
        return edges
    if kind == "growing":
        return (0.5 + 0.5 * torch.rand(length, length)).triu(1)
    return (torch.rand(length, length) * (torch.rand(length, length) < 4 / length)).triu(1)


def in_file(edges: torch.Tensor, folder=None) -> Triangle:
    file = ScratchFile(edge_count(len(edges)), folder)
    triangle = Triangle.on(file.numbers, len(edges), file.release)
    triangle.add(slice(0, len(edges)), edges.T)
    return triangle


def in_memory(edges: torch.Tensor) -> Triangle:
    triangle = Triangle.zeros(len(edges))
    triangle.add(slice(0, len(edges)), edges.T)
    return triangle


TARGETS = torch.zeros(LENGTH, 3)
TARGETS[[LENGTH - 1, LENGTH - 40], 0] = 1  # two receivers in different blocks
TARGETS[BLOCK, 1] = 1
TARGETS[LENGTH - 2, 2] = 1
OPTIONS = [{}, {"gamma": 0.3}, {"gamma": 0.0}, {"hops": 1}, {"hops": 3}, {"multihop": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["sparse", "growing", "weak chain"])
def test_scores_do_not_depend_on_where_the_matrix_is_kept(kind, options, tmp_path):
    edges = random_edges(kind)
    expected = log_scores(Triangle.of(edges), TARGETS, **options)
    for triangle in (in_memory(edges), in_file(edges, tmp_path)):
        found = log_scores(triangle, TARGETS, **options)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert torch.isfinite(expected).any() or options.get("gamma") == 0.0
    if kind == "growing" and not options:
        assert float(expected.max()) > 200 * np.log(2)  # more than one exponent


@pytest.mark.parametrize("gamma", [0.3, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["sparse", "growing", "weak chain"])
def test_scores_from_a_file_equal_plain_sums_in_extended_precision(kind, gamma, tmp_path):
    edges = random_edges(kind)
    for column, receivers in enumerate(([LENGTH - 40, LENGTH - 1], [BLOCK], [LENGTH - 2])):
        with np.errstate(divide="ignore"):
            expected = np.log(algorithm.extended_precision_scores(edges.numpy(), receivers, gamma))
        found = log_scores(in_file(edges, tmp_path), TARGETS[:, [column]], gamma)[:, 0].numpy()
        digits = 1e-14 if kind == "weak chain" else 5e-16  # logarithms of some thousand, themselves summed
        np.testing.assert_allclose(found, expected.astype(float), rtol=digits, atol=1e-12)


def test_path_sums_read_every_block_once_per_direction(tmp_path):
    edges = random_edges("growing")
    file, used = ScratchFile(edge_count(LENGTH), tmp_path), Counter()
    triangle = Triangle.on(file.numbers, LENGTH, lambda start, stop: used.update([start]))
    triangle.add(slice(0, LENGTH), edges.T)
    triangle.average(1)
    used.clear()
    log_scores(triangle, TARGETS)
    assert len(used) == len(block_rows(LENGTH))
    assert set(used.values()) == {2}
    log_scores(triangle, TARGETS, hops=3)
    assert set(used.values()) == {2 + 2 * 3}


def test_layers_add_up_whatever_blocks_they_come_in():
    torch.manual_seed(2)
    layers = [torch.rand(LENGTH, LENGTH) for _ in range(3)]  # receiver by source, also what a mask lets a receiver see
    triangle = Triangle.zeros(LENGTH)
    for step, layer in zip((16, 100, 300), layers, strict=True):
        for start in range(0, LENGTH, step):
            rows = slice(start, min(start + step, LENGTH))
            triangle.add(rows, layer[rows] if step == 100 else layer[rows, : rows.stop])
    triangle.average(3)
    expected = (sum(layers) / 3).T.triu(1)
    torch.testing.assert_close(triangle.dense(), expected)
    assert triangle.largest == float(triangle.dense().max())
    assert edge_count(LENGTH) < 0.75 * LENGTH**2  # half, and one block on the diagonal


def workload(lvlm: Lvlm) -> Workload:
    return workload_of(lvlm.model.config.text_config, lvlm.model.dtype)


@pytest.fixture
def tight(pinhole, trace, monkeypatch) -> int:
    """The largest budget with which W of the embedded example goes to a file, if nothing else were in use."""
    monkeypatch.setattr(session_module, "memory_in_use", lambda device: 0)
    matrix = 4 * edge_count(len(trace))
    return working_bytes(workload(pinhole), len(trace), kind_of(pinhole.device)) + matrix - 1


@pytest.mark.parametrize("options", [{}, {"hops": 2}, {"multihop": False}, {"gamma": 0.4, "calibrate": False}], ids=str)
def test_the_embedded_model_gives_the_same_scores_within_a_budget(pinhole, trace, tight, options, monkeypatch):
    opened = []
    monkeypatch.setattr(session_module, "ScratchFile", lambda count: opened.append(count) or ScratchFile(count))
    expected = vtrace.attribute(pinhole, trace, "answer", **options)
    assert not opened
    found = vtrace.attribute(pinhole, trace, "answer", memory=tight, **options)
    assert opened == [edge_count(len(trace))]
    assert torch.equal(found.pairwise.dense(), expected.pairwise.dense())
    for a, b in [(found, expected), (found.retarget("response"), expected.retarget("response"))]:
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-12)
        assert a.log_scale == pytest.approx(b.log_scale, abs=1e-12)
    np.testing.assert_allclose(found.every_token(), expected.every_token(), rtol=0, atol=1e-12)
    vtrace.attribute(pinhole, trace, memory=tight + 1)
    assert len(opened) == 1  # this one fits


def test_kept_layers_can_spill_too(pinhole, trace, tight):
    kept = TraceSession.open(pinhole, trace, memory=tight).pairwise()
    assert torch.equal(kept.dense(), TraceSession.open(pinhole, trace).pairwise().dense())


def test_several_targets_at_once_are_one_at_a_time(attribution):
    specs = ["answer", "response", "sentence 1"]
    for found, spec in zip(attribution.retarget_all(specs), specs, strict=True):
        expected = attribution.retarget(spec)
        assert found.target == expected.target
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-12)


def test_a_budget_below_the_least_names_the_least(pinhole, trace):
    work = workload(pinhole)
    least = working_bytes(work, 1000, "cpu") + 5_000_000
    assert plan_memory(work, 1000, "cpu", 5_000_000, least).spills
    with pytest.raises(InputError, match=r"^1,000 tokens do not fit into .*; allow at least .*5 MB for libraries.*$"):
        plan_memory(work, 1000, "cpu", 5_000_000, least - 1)
    with pytest.raises(InputError, match="allow at least"):
        vtrace.attribute(pinhole, trace, memory="1MB")
