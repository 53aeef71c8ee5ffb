"""Peak memory: of a block, above what was in use before it."""

from __future__ import annotations

import pytest
import torch

from vtrace.system import peak_memory
from vtrace.system.peak_memory import PeakMemory

MEGABYTE = 2**20
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def reported():
    memory = PeakMemory(CPU)
    with memory.measure():
        pass
    if memory.peak is None:
        pytest.skip("this system does not report the peak memory of a process")


def test_memory_that_a_block_has_freed_again_is_in_its_peak():
    memory = PeakMemory(CPU)
    with memory.measure():
        torch.ones(64 * MEGABYTE, dtype=torch.uint8)
    assert 60 * MEGABYTE < memory.peak < 128 * MEGABYTE


def test_the_next_block_begins_again():
    memory = PeakMemory(CPU)
    peaks = []
    for megabytes in (96, 32):
        with memory.measure():
            torch.ones(megabytes * MEGABYTE, dtype=torch.uint8)
        peaks.append(memory.peak)
    assert peaks[1] < peaks[0] - 32 * MEGABYTE


def test_memory_that_was_in_use_before_is_not_counted():
    before = torch.ones(128 * MEGABYTE, dtype=torch.uint8)
    memory = PeakMemory(CPU)
    with memory.measure():
        torch.ones(MEGABYTE, dtype=torch.uint8)
    assert memory.peak < before.numel() // 2


def test_a_system_that_does_not_report_it_gives_none(tmp_path, monkeypatch):
    monkeypatch.setattr(peak_memory, "_RESET", tmp_path / "none" / "clear_refs")
    monkeypatch.setattr(peak_memory, "_STATUS", tmp_path / "status")
    memory = PeakMemory(CPU)
    with memory.measure():
        pass
    assert memory.peak is None
