"""Traces, attributions and comparisons as versioned JSON. Traces and attributions load back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..attribution.findings.contrast import contrast_document, read_contrast
from ..attribution.findings.regions import MOST_REGIONS, Region, region_entry
from ..attribution.findings.verification_document import read_verification, verification_document
from ..attribution.result import Attribution
from ..attribution.triangle import LARGEST_SAVED, Triangle
from ..methods.comparison import Comparison
from ..methods.model_comparison import moves
from ..system.json_reader import read_json
from ..system.typed_json import as_typed
from ..types import Calibration, Target, Trace
from ..viewer.quantise import decode_triangle, encode_triangle, left_out_note
from .trace_document import ATTRIBUTION_SCHEMA, TRACE_SCHEMA, readable_document, trace_document, trace_from

COMPARISON_SCHEMA = "vtrace.comparison/2"
_Row = tuple[float, ...]
_Rows = tuple[_Row, ...]
STRONGEST = 20  # number of inputs listed by name
OF_METHOD = ("scores", "options", "image_share", "text_share", "calibration", "warnings", "top", "details")


def read(path: str | Path) -> Trace | Attribution:
    """Load what was saved as JSON."""
    path = Path(path)
    return from_document(read_json(path, "a VTrace file"), str(path))


def from_document(document: Any, name: str = "the document") -> Trace | Attribution:
    """A trace or an attribution from its JSON form."""
    with readable_document(document, name) as schema:
        return trace_from(document) if schema == TRACE_SCHEMA else _attribution(document)


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
            "forward_passes": cost.passes,
        }
    spearman = [[None if math.isnan(v) else float(v) for v in row] for row in comparison.agreement]
    return {
        "schema": COMPARISON_SCHEMA,
        **_facts(comparison.trace, comparison.target),
        "warnings": comparison.warnings,
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
        "probed": {"tokens": len(trace.probed), "median_confidence": median(trace.probed)} if trace.probed else None,
        "question": trace.question,
        "response": trace.response,
        "answer": trace.answer_text,
        "target": {"name": target.name, "positions": list(target.positions)},
    }


def _attribution(document: dict[str, Any]) -> Attribution:
    verified, contrast = document.get("verification"), document.get("contrast")  # files of older versions have none
    for part in ("verification", "contrast", "regions"):
        _check_finite(document.get(part), part)
    trace = trace_from(document["trace"])
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
        verification=None if verified is None else read_verification(verified, trace),
        contrast=None if contrast is None else read_contrast(contrast, len(trace)),
        regions=_regions(document.get("regions", []), len(trace)),
    )


def _check_finite(value: Any, where: str) -> None:
    """NaN and infinities, which Python reads, are not JSON, and a page could not hold them."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{where} has a value that is no number") from error


def _regions(entries: Any, length: int) -> tuple[Region, ...]:
    found = tuple(_region(entry, length) for entry in entries)
    if sum(region.kind != "evidence" for region in found) > MOST_REGIONS:
        raise ValueError(f"there are more than {MOST_REGIONS} regions")
    return found


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
