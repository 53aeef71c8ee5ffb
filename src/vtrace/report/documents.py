"""Traces, attributions and comparisons as versioned JSON. Traces and attributions load back."""

from __future__ import annotations

import base64
import dataclasses
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..attribution.result import Attribution
from ..errors import InputError, first_line
from ..methods.comparison import Comparison
from ..system.json_reader import read_json
from ..types import Box, Calibration, Patch, Span, Target, Trace, Turn, Word
from ..viewer.quantise import decode_triangle, encode_triangle

TRACE_SCHEMA = "vtrace.trace/1"
ATTRIBUTION_SCHEMA = "vtrace.attribution/2"
COMPARISON_SCHEMA = "vtrace.comparison/2"
AGAIN = {  # what to do with a file of an older version
    TRACE_SCHEMA: "ask the model again",
    ATTRIBUTION_SCHEMA: "explain the trace again",
}
STRONGEST = 20  # number of inputs listed by name
OF_METHOD = ("scores", "options", "image_share", "text_share", "calibration", "warnings", "top", "details")


def read(path: str | Path) -> Trace | Attribution:
    """Load what was saved as JSON."""
    path = Path(path)
    return from_document(read_json(path, "a VTrace file"), str(path))


def read_trace(path: str | Path) -> Trace:
    """The trace in a file: a saved trace, or that of a saved attribution."""
    found = read(path)
    return found if isinstance(found, Trace) else found.trace


def from_document(document: Any, name: str = "the document") -> Trace | Attribution:
    """A trace or an attribution from its JSON form."""
    schema = str(document.get("schema")) if isinstance(document, dict) else "none"
    if schema not in AGAIN:
        raise _unreadable(schema, name)
    try:
        return _trace(document) if schema == TRACE_SCHEMA else _attribution(document)
    except Exception as error:  # a damaged file can fail anywhere
        raise InputError(f"{name} is damaged: {type(error).__name__}: {first_line(error)}") from error


def _unreadable(schema: str, name: str) -> InputError:
    """Raise an error for another version of a known format, or for an unknown one."""
    kind, _, version = schema.partition("/")
    for known, again in AGAIN.items():
        known_kind, _, known_version = known.partition("/")
        if kind != known_kind or not version.isdecimal():
            continue
        if int(version) < int(known_version):
            return InputError(f"{name} was saved by an older version; {again}")
        return InputError(f"{name} was saved by a newer version; update VTrace")
    return InputError(f"{name} has schema {schema}; only {' and '.join(AGAIN)} can be loaded")


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
        **_facts(attribution.trace, attribution.target),
        "options": dict(attribution.options),
        "image_share": attribution.image_share,
        "text_share": attribution.text_share,
        "picture_shares": attribution.picture_shares,
        "calibration": dataclasses.asdict(attribution.calibration),
        "warnings": attribution.warnings,
        "top": [
            {key: value for key, value in dataclasses.asdict(item).items() if value is not None}
            for item in attribution.top(STRONGEST)
        ],
        "scores": attribution.scores.tolist(),
        "log_scale": attribution.log_scale,
        "likelihoods": None if likelihoods is None else likelihoods.tolist(),
        "details": attribution.details,
        "trace": trace_document(attribution.trace, pictures=whole),
        "pairwise": None if pairwise is None else encode_triangle(pairwise),
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Scores, costs and agreement as JSON, without pictures. It does not load back."""
    methods = {}
    for name, result in comparison.results.items():
        found, cost = attribution_document(result, whole=False), comparison.costs[name]
        methods[name] = {key: found[key] for key in OF_METHOD} | {
            "seconds": cost.seconds,
            "own_seconds": cost.own_seconds,
            "shared": cost.shared,
            "memory_bytes": cost.memory,
        }
    spearman = [[None if math.isnan(v) else float(v) for v in row] for row in comparison.agreement]
    return {
        "schema": COMPARISON_SCHEMA,
        **_facts(comparison.trace, comparison.target),
        "kinds": list(comparison.trace.kinds),
        "methods": methods,
        "agreement": {"methods": list(comparison.results), "spearman": spearman},
        "failures": comparison.failures,
    }


def _facts(trace: Trace, target: Target) -> dict[str, Any]:
    return {
        "model": trace.model,
        "question": trace.question,
        "response": trace.response,
        "answer": trace.answer_text,
        "target": {"name": target.name, "positions": list(target.positions)},
    }


def encode_image(image: Image.Image) -> str:
    """PNG in base64."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


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
        pairwise=None if pairwise is None else decode_triangle(pairwise),
    )


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
