"""Independent jobs in parallel: results in order, and threads as they were."""

from __future__ import annotations

import threading

import pytest
import torch

from support.waiting import PATIENCE
from vtrace.system.threads import side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
def test_results_are_in_the_order_of_the_jobs_whichever_ends_first():
    ended = [threading.Event() for _ in range(3)]

    def job(number: int) -> tuple[int, int]:
        if number < 2:
            assert ended[number + 1].wait(PATIENCE)  # the last one ends first
        ended[number].set()
        return number, torch.get_num_threads()

    assert side_by_side(job, range(3), CPU) == [(0, 1), (1, 1), (2, 1)]
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
def test_the_number_of_threads_is_restored_after_an_error():
    def job(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        side_by_side(job, [1, 0], CPU)
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(
    ("jobs", "device"), [(3, torch.device("cuda")), (1, CPU), (0, CPU)], ids=["gpu", "one", "none"]
)
def test_jobs_run_one_after_another_where_threads_would_not_help(jobs, device):
    def job(number: int) -> tuple[int, str, int]:
        return number, threading.current_thread().name, torch.get_num_threads()

    here = threading.current_thread().name
    assert side_by_side(job, range(jobs), device) == [(number, here, 4) for number in range(jobs)]
