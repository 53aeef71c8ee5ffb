"""Many items in batches, which get smaller when memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from ..errors import is_out_of_memory
from .threads import exchanges_results, side_by_side

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def consecutive(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    """Consecutive parts of this size; the last one may be smaller."""
    return [items[k : k + size] for k in range(0, len(items), size)]


def in_batches(function: Callable[[Sequence[_Item]], _Result], items: Sequence[_Item], size: int) -> Iterator[_Result]:
    """What the function returns for each batch, one after another.

    When memory runs out, that batch and all later ones are halved, down to one item. Processes that share a model do
    not try again: the others would wait for a batch that this one has given up.
    """
    while items:
        part = items[:size]
        try:
            result = function(part)
        except (RuntimeError, MemoryError) as error:
            if len(part) == 1 or exchanges_results() or not is_out_of_memory(error):
                raise
            size = len(part) // 2
        else:
            yield result
            items = items[size:]
            continue
        torch.cuda.empty_cache()  # not above: the error holds on to the tensors of the failed batch


def in_parallel_batches(
    function: Callable[[Sequence[_Item]], _Result], items: Sequence[_Item], size: int, device: torch.device
) -> list[_Result]:
    """The same with one thread per core on a CPU, for functions that several threads may call."""
    if device.type != "cpu":
        return list(in_batches(function, items, size))
    found = side_by_side(lambda part: list(in_batches(function, part, size)), consecutive(items, size), device)
    return [result for results in found for result in results]
