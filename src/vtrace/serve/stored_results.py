"""What the history keeps of an explanation: its trace once, every matrix once, and the numbers of each method."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from ..attribution.result import Attribution
from ..attribution.triangle import LARGEST_SAVED, Triangle
from ..report.documents import attribution_document, from_document
from ..report.trace_document import encode_image, trace_document
from ..system.json_reader import parse_json
from ..tracing.pictures import open_image, open_images
from ..types import Trace
from ..viewer.exported_methods import index_of_matrix
from ..viewer.quantise import decode_triangle, encode_triangle, left_out_note

_PARTS = ("trace", "pairwise")  # of a document, stored on their own


class StoredMatrix(NamedTuple):
    """W as `encode_triangle` packs it, but with its bytes as they are."""

    facts: str  # JSON
    data: bytes


class StoredMethod(NamedTuple):
    """The attribution of one method, without trace and matrix."""

    method: str
    document: bytes  # compressed JSON
    matrix: int | None  # index in the list of matrices


class StoredResults(NamedTuple):
    """All results of one explanation, and its pictures as files."""

    trace: bytes  # compressed JSON, without pictures
    methods: Sequence[StoredMethod]
    matrices: Sequence[StoredMatrix]
    pictures: Sequence[bytes]

    def document(self, method: str) -> dict[str, Any] | None:
        """The attribution of a method as `vtrace.read` loads it. Pictures are encoded again, not sent back."""
        found = next((one for one in self.methods if one.method == method), None)
        if found is None:
            return None
        pictures = [encode_image(open_image(data)) for data in self.pictures]
        matrix = None if found.matrix is None else _encoded(self.matrices[found.matrix])
        return _json(found.document) | {"trace": _json(self.trace) | {"images": pictures}, "pairwise": matrix}

    def attributions(self) -> list[Attribution]:
        """All attributions; trace, pictures and matrices are shared."""
        bare = [self._bare(one) for one in self.methods]
        trace = replace(bare[0].trace, images=open_images(self.pictures))
        matrices = [Triangle.of(decode_triangle(_encoded(matrix), len(trace))) for matrix in self.matrices]
        return [
            replace(result, trace=trace, pairwise=None if one.matrix is None else matrices[one.matrix])
            for result, one in zip(bare, self.methods, strict=True)
        ]

    def frozen_trace(self) -> Trace:
        """The trace with its pictures."""
        return replace(self.bare_trace(), images=open_images(self.pictures))

    def bare_trace(self) -> Trace:
        """The trace without pictures."""
        found = from_document(_json(self.trace), "the trace")
        assert isinstance(found, Trace)
        return found

    def _bare(self, one: StoredMethod) -> Attribution:
        """Without pictures and matrix."""
        document = _json(one.document) | {"trace": _json(self.trace), "pairwise": None}
        result = from_document(document, f"the result of {one.method}")
        assert isinstance(result, Attribution)
        return result


def pack_results(results: Sequence[Attribution], pictures: Sequence[bytes]) -> StoredResults:
    """What is stored of results that belong to one trace."""
    tensors: list[Tensor] = []
    methods = []
    for result in results:
        document, matrix = attribution_document(result, whole=False), None
        if result.pairwise is not None and len(result.pairwise) > LARGEST_SAVED:
            document["left_out"] = left_out_note(len(result.pairwise))
        elif result.pairwise is not None:
            matrix = index_of_matrix(tensors, result.pairwise.dense())
        numbers = {key: value for key, value in document.items() if key not in _PARTS}
        methods.append(StoredMethod(result.method, _packed(numbers), matrix))
    trace = _packed(trace_document(results[0].trace, pictures=False))
    return StoredResults(trace, methods, [_stored(tensor) for tensor in tensors], pictures)


def _stored(pairwise: Tensor) -> StoredMatrix:
    encoded: dict[str, Any] = dict(encode_triangle(pairwise))
    return StoredMatrix(json.dumps({**encoded, "data": ""}), base64.b64decode(encoded["data"]))


def _encoded(matrix: StoredMatrix) -> Any:
    return json.loads(matrix.facts) | {"data": base64.b64encode(matrix.data).decode("ascii")}


def _packed(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document, ensure_ascii=False).encode())


def _json(packed: bytes) -> dict[str, Any]:
    return parse_json(zlib.decompress(packed), "the history is damaged")
