"""W as few bytes: exact where it is small, rounded on a logarithmic scale where it is not."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np
from torch import Tensor

BUDGET = 1_700_000  # bytes of one matrix before base64: leaves room for the picture in a page of 3 MB
DEPTHS = (32, 16, 12)  # bits an edge; 32 is float32 as it is
SPAN = math.log(1e8)  # edges weaker than the strongest by more than this count as none


def choose_depth(edges: int, budget: int = BUDGET) -> int:
    """The most bits an edge that fit into the budget."""
    return next((bits for bits in DEPTHS if edges * bits / 8 <= budget), DEPTHS[-1])


def encode(pairwise: Tensor, bits: int) -> dict[str, Any]:
    """The strict upper triangle, row by row, as compressed byte planes in base64.

    A code k > 0 stands for largest · exp((k - top) · step), top = 2^bits - 1; 0 for no edge.
    """
    size = len(pairwise)
    edges = pairwise.cpu().float().numpy()[np.triu(np.ones((size, size), dtype=bool), k=1)]
    largest = float(edges.max(initial=0.0))
    step = 0.0
    if bits == 32:
        codes = edges.astype("<f4").view("<u4")
    else:
        step = _span(edges, largest) / (2**bits - 2)
        codes = _codes(edges, largest, step, bits).astype("<u2")
    planes = codes.view(np.uint8).reshape(-1, codes.itemsize).T  # like bytes side by side compress better
    data = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")
    return {"size": size, "bits": bits, "largest": largest, "step": step, "data": data}


def _span(edges: np.ndarray, largest: float) -> float:
    """Natural logarithm of the range that codes have to cover."""
    present = edges[edges > 0]
    return min(SPAN, math.log(largest / float(present.min()))) if present.size else SPAN


def _codes(edges: np.ndarray, largest: float, step: float, bits: int) -> np.ndarray:
    top = 2**bits - 1
    if not step:  # all edges are equal
        return np.where(edges > 0, top, 0)
    with np.errstate(divide="ignore"):
        steps = np.log(edges.astype(np.float64) / (largest or 1.0)) / step
    codes = np.where(np.isfinite(steps), top + np.rint(steps), 0)
    return np.maximum(codes, 0)
