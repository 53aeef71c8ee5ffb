"""W in few bytes: exact if it is small or saved to JSON, otherwise rounded on a logarithmic scale."""

from __future__ import annotations

import base64
import math
import zlib
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from ..attribution.triangle import edge_count
from ..system.byte_count import format_bytes

BUDGET = 1_700_000  # bytes of one matrix before base64: leaves room for the picture in a page of 3 MB
EXACT = 32  # bits: float32 as it is
DEPTHS = (EXACT, 16, 12)  # bits per edge
SPAN = math.log(1e8)  # edges weaker than the strongest by more than this factor count as zero


class EncodedTriangle(TypedDict):
    """The strict upper triangle, row by row, as compressed byte planes in base64.

    With fewer than 32 bits, a code k > 0 stands for largest · exp((k - top) · step), top = 2^bits - 1; 0 for no edge.
    """

    size: int  # rows of the matrix
    bits: int
    largest: float
    step: float
    data: str


def left_out_note(tokens: int) -> str:
    """What a file says if it does not contain W."""
    size = format_bytes(4 * edge_count(tokens))
    return f"The pairwise matrix of {tokens:,} tokens ({size}) is too large for a file and was left out."


def choose_depth(edges: int, budget: int = BUDGET) -> int:
    """The most bits per edge that fit into the budget."""
    return next((bits for bits in DEPTHS if edges * bits / 8 <= budget), DEPTHS[-1])


def encode_triangle(pairwise: Tensor, bits: int = EXACT) -> EncodedTriangle:
    """Encode W (T,T)."""
    edges = pairwise.cpu().float().numpy()[_upper(len(pairwise))]
    largest = float(edges.max(initial=0.0))
    step = 0.0
    if bits == EXACT:
        codes = edges.astype("<f4").view("<u4")
    else:
        step = _span(edges, largest) / (2**bits - 2)
        codes = _codes(edges, largest, step, bits).astype("<u2")
    planes = codes.view(np.uint8).reshape(-1, codes.itemsize).T  # similar bytes next to each other compress better
    data = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")
    return {"size": len(pairwise), "bits": bits, "largest": largest, "step": step, "data": data}


def decode_triangle(document: EncodedTriangle, length: int) -> Tensor:
    """Decode W (T,T), T = `length`: exact with 32 bits, rounded with fewer. Nothing larger is unpacked."""
    size, bits = document["size"], document["bits"]
    scale = (document["largest"], document["step"])
    if size != length or bits not in DEPTHS or not all(map(math.isfinite, scale)):
        raise ValueError("the matrix does not fit the trace")
    width = 4 if bits == EXACT else 2
    planes = np.frombuffer(_unpack(document["data"], width * size * (size - 1) // 2), np.uint8)
    whole = np.ascontiguousarray(planes.reshape(width, -1).T)
    matrix = np.zeros((size, size), dtype=np.float32)
    if bits == EXACT:
        matrix[_upper(size)] = whole.view("<f4")[:, 0]
    else:
        codes = whole.view("<u2")[:, 0].astype(np.float64)
        values = document["largest"] * np.exp((codes - (2**bits - 1)) * document["step"])
        matrix[_upper(size)] = np.where(codes > 0, values, 0)
    return torch.from_numpy(matrix)


def _unpack(data: str, expected: int) -> bytes:
    """Compressed bytes in base64, of which there have to be as many as expected."""
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(base64.b64decode(data, validate=True), expected + 1)
    if len(unpacked) != expected:
        raise ValueError("the matrix does not have as many edges as its size says")
    return unpacked


def _upper(size: int) -> np.ndarray:
    return np.triu(np.ones((size, size), dtype=bool), k=1)


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
