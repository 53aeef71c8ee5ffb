"""Processes that `torchrun` started to work on one thing together."""

from __future__ import annotations

import os


def process_count() -> int:
    """How many processes were started; 1 without `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    """The number of this process, from 0."""
    return int(os.environ.get("RANK", "0")) if process_count() > 1 else 0


def is_first_process() -> bool:
    """Whether this process prints and writes the results, which all processes have."""
    return process_rank() == 0
