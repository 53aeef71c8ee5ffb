"""What one explanation needs in memory, and whether W has to be kept in a file."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InputError
from ..lvlm.batch_size import Workload
from ..system.byte_count import format_bytes
from .attention import BLOCK_BYTES, LEAST_RECEIVERS, Device
from .triangle import BLOCK, edge_count

SLACK_SHARE, SLACK_BYTES = 0.4, 128 << 20  # freed memory that the allocator keeps: pieces below 32 MB on a CPU
LOGIT_ROWS = 256  # predictors whose logits are computed together


class MemoryPlan(NamedTuple):
    """Memory of one explanation, in bytes."""

    in_use: int  # before it begins: libraries and weights
    working: int  # activations of one pass, and buffers
    matrix: int  # W
    spills: bool  # W is kept in a file

    @property
    def total(self) -> int:
        return self.in_use + self.working + (0 if self.spills else self.matrix)

    @property
    def disk(self) -> int:
        return self.matrix if self.spills else 0


def plan_memory(work: Workload, tokens: int, device: Device, in_use: int, budget: int | None) -> MemoryPlan:
    """Decide where W is kept. A budget that is too small even with W in a file is an error that says the least."""
    working, matrix = working_bytes(work, tokens, device), 4 * edge_count(tokens)
    plan = MemoryPlan(in_use, working, matrix, budget is not None and in_use + working + matrix > budget)
    if budget is not None and plan.total > budget:
        raise InputError(
            f"{tokens:,} tokens do not fit into {format_bytes(budget)} of memory; allow at least "
            f"{format_bytes(plan.total)}: {format_bytes(in_use)} for libraries and weights, and "
            f"{format_bytes(working)} for one pass"
        )
    return plan


def working_bytes(work: Workload, tokens: int, device: Device) -> int:
    """Activations and buffers at the widest point of an explanation, without W."""
    # The instrumented pass reads a layer while its inputs are alive: embeddings, residual, its normed copy, update.
    layer = tokens * (4 * work.width + 2 * work.queries + 2 * work.cached) * work.item
    # What is read, in float32: directions, what heads read along them, queries, values.
    read = 4 * tokens * (work.width + 2 * work.queries + work.cached)
    blocks = 4 * max(BLOCK_BYTES[device], 4 * LEAST_RECEIVERS * work.heads * tokens)  # two buffers, doubled when full
    # A padded pass has two kinds of embeddings, residual, its normed copy, and the feed-forward block.
    padded = tokens * (5 * work.width + 3 * work.inner) * work.item
    paths = 16 * BLOCK * tokens  # one block of W in float64, and its product
    activations = max(layer + read + blocks, padded, paths)
    logits = 8 * LOGIT_ROWS * work.vocabulary
    return int(activations + min(SLACK_SHARE * activations, SLACK_BYTES) + logits)
