"""Everything the page needs to know, as one JSON document: the trace, the evidence, and every method's numbers."""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image

from ..attribution.result import Attribution
from ..errors import InputError
from ..tracing.spans import word_pieces
from ..tracing.targets import find_target
from ..types import Panel, Target, Trace
from .palette import DARK_STOPS, STOPS
from .quantise import BUDGET, choose_depth, encode

MAX_SIDE = 1200  # pixels of an embedded picture
LARGE = 250_000  # bytes from which a picture is embedded as JPEG
LETTERS = {"image": "i", "question": "q", "template": "t", "response": "r"}


def export(results: Sequence[Attribution], title: str = "", remarks: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document. Results are of one trace; of one method there may be several targets."""
    if not results:
        raise InputError("give at least one attribution to show")
    first = results[0]
    trace = first.trace
    if any(result.trace is not trace and result.trace.ids != trace.ids for result in results):
        raise InputError("these attributions are of different responses; show them on pages of their own")
    remarks = remarks or {}
    methods, matrices = _methods(results)
    shown = {result.method for result in results}
    return {
        "title": title or f"VTrace: {trace.question}",
        "heading": title,
        "model": trace.model,
        "answer": trace.answer_text,
        "warnings": [
            *(note for note in first.warnings if not note.startswith("calibration")),
            *(f"Not run: {reason}" for name, reason in remarks.items() if name not in shown),
        ],
        "stops": STOPS,
        "darkStops": DARK_STOPS,
        "kinds": "".join(LETTERS[kind] for kind in trace.kinds),
        "promptLength": trace.prompt_length,
        **_text(trace),
        **_pictures(first),
        "targets": [_target(target) for target in _named_targets(trace)],
        "target": _target(first.target),
        "methods": [{**method, "remark": remarks.get(method["method"], "")} for method in methods],
        "matrices": matrices,
    }


def _text(trace: Trace) -> dict[str, Any]:
    """Response, tokens and words; offsets count UTF-16 units, as JavaScript does."""
    start = trace.response_span[0]
    units = np.concatenate([[0], np.cumsum([1 + (ord(letter) > 0xFFFF) for letter in trace.text[start:]])])

    def place(character: int) -> int:
        return int(units[min(max(character - start, 0), len(units) - 1)])

    shown = {
        word.start: [text, before, after]
        for kind in ("question", "response")
        for word, before, text, after in word_pieces(
            trace.text, trace.offsets, [w for w in trace.words if w.kind == kind]
        )
    }
    return {
        "response": trace.response,
        "offsets": [[place(low), place(high)] for low, high in trace.offsets[trace.prompt_length :]],
        # kind, first and one past the last position, text; of those that are shown also the blanks around it
        "words": [[LETTERS[w.kind], w.start, w.stop, *shown.get(w.start, [w.text])] for w in trace.words],
    }


def _pictures(attribution: Attribution) -> dict[str, Any]:
    """Pictures, the panels that show them, and all pieces of evidence in the order of the sequence."""
    trace = attribution.trace
    patches = {patch.position: patch for patch in trace.patches}
    places = sorted({(patch.image, patch.view) for patch in trace.patches})
    evidence = []
    for item in sorted(attribution.ranking(), key=lambda item: (item.kind != "image", item.positions)):
        entry: dict[str, Any] = {"label": item.label, "start": item.positions[0], "stop": item.positions[-1] + 1}
        if item.kind == "image":
            patch = patches[item.positions[0]]
            panel = places.index((patch.image, patch.view))
            entry |= {"panel": panel, "row": patch.row, "column": patch.column, "box": [round(v, 2) for v in patch.box]}
        evidence.append(entry)
    return {
        "panels": [
            {
                "title": trace.panel_name(Panel(image, view)),
                "image": image if image < len(trace.images) else None,
                "size": _size(trace, image),
                "view": view,
            }
            for image, view in places
        ],
        "pictures": [data_url(image) for image in trace.images],
        "evidence": evidence,
    }


def _size(trace: Trace, image: int) -> list[float]:
    """Width and height of a picture; of a trace saved without its pictures only the grid is known."""
    if image < len(trace.images):
        return list(trace.images[image].size)
    boxes = [patch.box for patch in trace.patches if patch.image == image]
    return [max(box[2] for box in boxes), max(box[3] for box in boxes)]


def data_url(image: Image.Image) -> str:
    """A picture as text: PNG, or JPEG where that would be large."""
    if max(image.size) > MAX_SIDE:
        image = image.copy()
        image.thumbnail((MAX_SIDE, MAX_SIDE))
    buffer, kind = io.BytesIO(), "png"
    image.save(buffer, "PNG", optimize=True)
    if buffer.tell() > LARGE:
        buffer, kind = io.BytesIO(), "jpeg"
        image.convert("RGB").save(buffer, "JPEG", quality=85, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _named_targets(trace: Trace) -> Iterable[Target]:
    names = ["response", "reasoning", "answer", *(f"sentence {k + 1}" for k in range(len(trace.sentences)))]
    for name in names:
        with suppress(InputError):  # a response without an answer, or without reasoning
            yield find_target(trace, name)


def _target(target: Target) -> dict[str, Any]:
    return {"name": target.name, "positions": list(target.positions)}


def _methods(results: Sequence[Attribution]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One entry a method and its options; matrices that several share are written once."""
    entries: dict[str, dict[str, Any]] = {}
    tensors: list[Any] = []
    for result in results:
        key = f"{result.method} {sorted(result.options.items())}"
        entry = entries.setdefault(key, _method(result, result.options))
        if result.pairwise is None:
            entry["exported"].append(_fixed(result))
            continue
        known = [k for k, tensor in enumerate(tensors) if tensor is result.pairwise or tensor.equal(result.pairwise)]
        if not known:
            tensors.append(result.pairwise)
        entry["matrix"] = known[0] if known else len(tensors) - 1
    edges = sum(len(tensor) * (len(tensor) - 1) // 2 for tensor in tensors)
    depth = choose_depth(edges, BUDGET)
    return _labelled(list(entries.values())), [encode(tensor, depth) for tensor in tensors]


def _method(result: Attribution, options: Mapping[str, Any]) -> dict[str, Any]:
    likelihoods = result.likelihoods
    return {
        "method": result.method,
        "options": {key: value for key, value in options.items() if isinstance(value, str | int | float | bool)},
        "likelihoods": None if likelihoods is None else [[_finite(float(v)) for v in row] for row in likelihoods],
        "matrix": None,
        "exported": [],
    }


def _labelled(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A label for each: the method, and where it ran more than once, the options in which it differs."""
    for entry in entries:
        twins = [other for other in entries if other["method"] == entry["method"]]
        different = [k for k, v in entry["options"].items() if any(other["options"].get(k) != v for other in twins)]
        chosen = ", ".join(f"{key} {entry['options'][key]}" for key in different)
        entry["label"] = entry["method"] + (f" ({chosen})" if chosen else "")
    return entries


def _fixed(result: Attribution) -> dict[str, Any]:
    """Scores of a method that cannot be computed again in the page."""
    calibration = {key: _finite(value) for key, value in dataclasses.asdict(result.calibration).items()}
    scores = base64.b64encode(result.scores.astype("<f8").tobytes()).decode("ascii")
    return {**_target(result.target), "scores": scores, "calibration": calibration}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
