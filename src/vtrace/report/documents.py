"""Traces and attributions as versioned JSON, with the pictures inside."""

from __future__ import annotations

import base64
import dataclasses
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..attribution.result import Attribution
from ..errors import InputError, first_line
from ..system.files import read_json
from ..types import Box, Calibration, Patch, Span, Target, Trace, Turn, Word

TRACE_SCHEMA = "vtrace.trace/1"
ATTRIBUTION_SCHEMA = "vtrace.attribution/1"


def read(path: str | Path) -> Trace | Attribution:
    """Load what was saved as JSON."""
    path = Path(path)
    return from_document(read_json(path, "a VTrace file"), str(path))


def from_document(document: Any, name: str = "the document") -> Trace | Attribution:
    """A trace or an attribution from its JSON form."""
    schema = document.get("schema") if isinstance(document, dict) else None
    try:
        if schema == TRACE_SCHEMA:
            return _trace(document)
        if schema == ATTRIBUTION_SCHEMA:
            return _attribution(document)
    except Exception as error:  # whatever a damaged file makes the parts stumble over
        raise InputError(f"{name} is damaged: {type(error).__name__}: {first_line(error)}") from error
    raise InputError(f"{name} has schema {schema!r}; this version reads {TRACE_SCHEMA} and {ATTRIBUTION_SCHEMA}")


def trace_document(trace: Trace, pictures: bool = True) -> dict[str, Any]:
    """A trace as JSON, pictures as PNG."""
    fields = {f.name: getattr(trace, f.name) for f in dataclasses.fields(trace) if f.name != "processed"}
    fields["images"] = [encode_image(image) for image in trace.images] if pictures else None
    fields["patches"] = [dataclasses.astuple(patch) for patch in trace.patches]
    fields["words"] = [dataclasses.astuple(word) for word in trace.words]
    fields["turns"] = [dataclasses.astuple(turn) for turn in trace.turns]
    return {"schema": TRACE_SCHEMA, **fields}


def attribution_document(attribution: Attribution, whole: bool = True) -> dict[str, Any]:
    """An attribution as JSON. The whole one has pictures and W, so it can be shown and retargeted after loading."""
    pairwise = attribution.pairwise if whole else None
    likelihoods = attribution.likelihoods
    return {
        "schema": ATTRIBUTION_SCHEMA,
        "method": attribution.method,
        "model": attribution.trace.model,
        "question": attribution.trace.question,
        "response": attribution.trace.response,
        "answer": attribution.trace.answer_text,
        "target": dataclasses.asdict(attribution.target),
        "options": dict(attribution.options),
        "image_share": attribution.image_share,
        "text_share": attribution.text_share,
        "picture_shares": attribution.picture_shares,
        "calibration": dataclasses.asdict(attribution.calibration),
        "warnings": attribution.warnings,
        "top": [
            {key: value for key, value in dataclasses.asdict(item).items() if value is not None}
            for item in attribution.top(20)
        ],
        "scores": [float(score) for score in attribution.scores],
        "log_scale": attribution.log_scale,
        "likelihoods": None if likelihoods is None else likelihoods.tolist(),
        "details": attribution.details,
        "trace": trace_document(attribution.trace, pictures=whole),
        "pairwise": None if pairwise is None else encode_matrix(pairwise),
    }


def encode_image(image: Image.Image) -> str:
    """PNG in base64."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def encode_matrix(pairwise: Tensor) -> dict[str, Any]:
    """The strict upper triangle, row by row, as compressed little-endian float32 in base64."""
    upper = np.triu(np.ones((len(pairwise),) * 2, dtype=bool), k=1)
    values = pairwise.cpu().float().numpy()[upper].astype("<f4")
    return {"size": len(pairwise), "upper": base64.b64encode(zlib.compress(values.tobytes(), 6)).decode("ascii")}


def decode_matrix(document: dict[str, Any]) -> Tensor:
    size = int(document["size"])
    matrix = np.zeros((size, size), dtype=np.float32)
    matrix[np.triu(np.ones((size, size), dtype=bool), k=1)] = np.frombuffer(
        zlib.decompress(base64.b64decode(document["upper"])), "<f4"
    )
    return torch.from_numpy(matrix)


def _trace(document: dict[str, Any]) -> Trace:
    fields = {key: _tupled(value) for key, value in document.items() if key != "schema"}
    fields["images"] = tuple(
        Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB") for data in document["images"] or ()
    )
    if not len(fields["ids"]) == len(fields["offsets"]) == len(fields["kinds"]) > fields["prompt_length"] > 0:
        raise ValueError("ids, offsets and kinds differ in length")
    fields["patches"] = tuple(
        Patch(position, image, row, column, Box(*box), view)
        for position, image, row, column, box, view in fields["patches"]
    )
    fields["offsets"] = tuple(Span(*offset) for offset in fields["offsets"])
    fields["sentences"] = tuple(Span(*sentence) for sentence in fields["sentences"])
    fields["response_span"], fields["reasoning"] = Span(*fields["response_span"]), Span(*fields["reasoning"])
    fields["answer"] = None if fields["answer"] is None else Span(*fields["answer"])
    fields["evidence_boxes"] = tuple(Box(*box) for box in fields["evidence_boxes"])
    fields["evidence_words"] = tuple(Span(*span) for span in fields["evidence_words"])
    fields["words"] = tuple(Word(*word) for word in fields["words"])
    fields["turns"] = tuple(Turn(*turn) for turn in fields.get("turns", ()))
    return Trace(**fields)


def _attribution(document: dict[str, Any]) -> Attribution:
    likelihoods, pairwise = document["likelihoods"], document["pairwise"]
    trace = _trace(document["trace"])
    if len(document["scores"]) != len(trace) or (pairwise and pairwise["size"] != len(trace)):
        raise ValueError("scores or matrix do not fit the trace")
    return Attribution(
        trace=trace,
        target=Target(document["target"]["name"], tuple(document["target"]["positions"])),
        scores=np.array(document["scores"], dtype=np.float64),
        log_scale=document["log_scale"],
        calibration=Calibration(**document["calibration"]),
        options=document["options"],
        method=document["method"],
        details=document.get("details", {}),
        likelihoods=None if likelihoods is None else np.array(likelihoods),
        pairwise=None if pairwise is None else decode_matrix(pairwise),
    )


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
