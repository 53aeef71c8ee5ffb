"""Traces, attributions and comparisons as versioned JSON. Traces and attributions load back."""

from __future__ import annotations

import base64
import dataclasses
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..attribution.findings.contrast import contrast_document, read_contrast
from ..attribution.findings.regions import Region, region_entry
from ..attribution.findings.verification_document import read_verification, verification_document
from ..attribution.result import Attribution
from ..attribution.triangle import LARGEST_SAVED, Triangle
from ..errors import InputError, first_line
from ..methods.comparison import Comparison
from ..methods.model_comparison import moves
from ..system.json_reader import read_json
from ..system.typed_json import as_typed, typed_fields
from ..tracing.pictures import open_images
from ..types import Calibration, Target, Trace
from ..viewer.quantise import decode_triangle, encode_triangle, left_out_note
from .trace_check import check_trace

TRACE_SCHEMA = "vtrace.trace/1"
ATTRIBUTION_SCHEMA = "vtrace.attribution/2"
COMPARISON_SCHEMA = "vtrace.comparison/2"
AGAIN = {  # what to do with a file of an older version
    TRACE_SCHEMA: "ask the model again",
    ATTRIBUTION_SCHEMA: "explain the trace again",
}
_Row = tuple[float, ...]
_Rows = tuple[_Row, ...]
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
    except KeyError as error:
        raise InputError(f"{name} is damaged: it has no field {error}") from error
    except Exception as error:  # a damaged file can fail anywhere
        raise InputError(f"{name} is damaged: {first_line(error)}") from error


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
    left_out = pairwise is not None and len(pairwise) > LARGEST_SAVED
    likelihoods, verified, contrast = attribution.likelihoods, attribution.verification, attribution.contrast
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
        "regions": [region_entry(region, attribution.scores) for region in attribution.regions],
        "visual_dependence": _dependence(attribution),
        "contrast": None if contrast is None else contrast_document(contrast),
        "verification": None if verified is None else verification_document(verified),
        "trace": trace_document(attribution.trace, pictures=whole),
        "pairwise": None if pairwise is None or left_out else encode_triangle(pairwise.dense()),
        "left_out": left_out_note(len(attribution.trace)) if left_out else None,
    }


def _dependence(attribution: Attribution) -> dict[str, Any] | None:
    """Visual dependence of response tokens and words, in nats; None if it was not measured."""
    if attribution.likelihoods is None:
        return None
    words = [
        {"text": word.text, "start": word.start, "stop": word.stop, "nats": nats}
        for word, nats in attribution.word_dependence()
    ]
    return {"tokens": attribution.visual_dependence().tolist(), "words": words}


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


def model_comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The same for one method and two models, and what moved: every patch and word, the largest change first."""
    document = comparison_document(comparison)
    moved = [
        {
            "kind": move.item.kind,
            "label": move.item.label,
            "positions": list(move.item.positions),
            "before": move.before,
            "after": move.after,
            "rank_before": move.rank_before,
            "rank_after": move.rank_after,
        }
        for move in moves(comparison)
    ]
    return {**document, "models": document.pop("methods"), "moved": moved}


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


def _trace(document: Any) -> Trace:
    fields = typed_fields(Trace, document, "trace", without=("schema", "images", "processed"))
    pictures = as_typed(tuple[str, ...] | None, document["images"], "trace.images") or ()
    trace = Trace(**fields, images=open_images([base64.b64decode(data, validate=True) for data in pictures]))
    check_trace(trace)
    return trace


def _attribution(document: dict[str, Any]) -> Attribution:
    verified, contrast = document.get("verification"), document.get("contrast")  # files of older versions have none
    trace = _trace(document["trace"])
    target = as_typed(Target, document["target"], "target")
    if not target.positions or not all(trace.prompt_length <= p < len(trace) for p in target.positions):
        raise ValueError("the target is outside the response")
    options = as_typed(Mapping[str, Any], document["options"], "options")
    details = as_typed(Mapping[str, Any], document.get("details", {}), "details")
    as_typed(tuple[str, ...], details.get("warnings", []), "details.warnings")
    scores = _numbers(_Row, document["scores"], (len(trace),), "scores")
    if not np.isfinite(scores).all():
        raise ValueError("scores has a value that is no number")
    likelihoods, pairwise, responses = document["likelihoods"], document["pairwise"], len(trace) - trace.prompt_length
    return Attribution(
        trace=trace,
        target=target,
        scores=scores,
        log_scale=as_typed(float, document["log_scale"], "log_scale"),
        calibration=as_typed(Calibration, document["calibration"], "calibration"),
        options=options,
        method=as_typed(str, document["method"], "method"),
        details=_with_warning(details, as_typed(str | None, document.get("left_out"), "left_out")),
        likelihoods=None if likelihoods is None else _numbers(_Rows, likelihoods, (4, responses), "likelihoods"),
        pairwise=None if pairwise is None else Triangle.of(decode_triangle(pairwise, len(trace))),
        verification=None if verified is None else read_verification(verified),
        contrast=None if contrast is None else read_contrast(contrast),
        regions=tuple(_region(entry, len(trace)) for entry in document.get("regions", [])),
    )


def _region(entry: Any, length: int) -> Region:
    region = as_typed(Region, {key: value for key, value in entry.items() if key != "share"}, "regions")
    if len(region.positions) != len(region.coverage) or not all(0 <= p < length for p in region.positions):
        raise ValueError("a region has positions that do not exist")
    return region


def _with_warning(details: Mapping[str, Any], warning: str | None) -> Mapping[str, Any]:
    return {**details, "warnings": [*details.get("warnings", []), warning]} if warning else details


def _numbers(kind: Any, value: Any, shape: tuple[int, ...], where: str) -> np.ndarray:
    """An array of numbers."""
    found = np.array(as_typed(kind, value, where), dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"{where} does not fit the trace")
    return found
