"""Independent jobs in parallel. On a CPU, one thread per core is faster than one operation over all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def side_by_side(function: Callable[[_Job], _Result], jobs: Sequence[_Job], device: torch.device) -> list[_Result]:
    """Results in the order of jobs. They run one after another on a GPU, and in processes that work on one model, which
    have to exchange results in the same order."""
    threaded = device.type == "cpu" and not exchanges_results()
    workers = min(len(jobs), torch.get_num_threads()) if threaded else 1
    if workers <= 1:
        return [function(job) for job in jobs]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers, initializer=lambda: torch.set_num_threads(1)) as pool:
            return list(pool.map(function, jobs))
    finally:
        torch.set_num_threads(before)


def exchanges_results() -> bool:
    """Whether this process works together with others, which wait for what it computes."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
