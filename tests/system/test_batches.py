"""Batches: results in order whatever their size, and smaller batches when memory runs out."""

from __future__ import annotations

import pytest
import torch

from vtrace.system.batches import consecutive, in_batches, in_parallel_batches

CPU = torch.device("cpu")


class SmallDevice:
    """A stand-in for a device whose memory fits a few items; it remembers what was tried."""

    def __init__(self, fits: int, message: str = "CUDA out of memory. Tried to allocate 2.00 GiB"):
        self.fits, self.message = fits, message
        self.tried: list[int] = []

    def __call__(self, part):
        self.tried.append(len(part))
        if len(part) > self.fits:
            raise RuntimeError(self.message)
        return list(part)


def test_parts_are_consecutive():
    assert consecutive(range(5), 2) == [range(2), range(2, 4), range(4, 5)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_results_are_in_order_whatever_the_size(size):
    found = [*in_batches(list, range(10), size)]
    assert [x for part in found for x in part] == list(range(10))
    assert found == in_parallel_batches(list, range(10), size, CPU)


def test_a_batch_that_does_not_fit_is_halved_and_so_are_all_later_ones():
    device = SmallDevice(fits=3)
    found = [*in_batches(device, range(20), 12)]
    assert [x for part in found for x in part] == list(range(20))
    assert device.tried == [12, 6, 3, 3, 3, 3, 3, 3, 2]


def test_an_item_that_does_not_fit_is_an_error():
    with pytest.raises(RuntimeError, match="out of memory"):
        [*in_batches(SmallDevice(fits=0), range(8), 4)]


def test_other_errors_are_not_tried_again():
    device = SmallDevice(fits=1, message="mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="shapes"):
        [*in_batches(device, range(8), 4)]
    assert device.tried == [4]


def test_processes_that_share_a_model_do_not_try_again(monkeypatch):
    monkeypatch.setattr("vtrace.system.batches.exchanges_results", lambda: True)
    device = SmallDevice(fits=1)
    with pytest.raises(RuntimeError, match="out of memory"):
        [*in_batches(device, range(8), 4)]
    assert device.tried == [4]


def test_threads_halve_their_own_batches():
    assert in_parallel_batches(SmallDevice(fits=1), range(8), 4, CPU) == [[x] for x in range(8)]
