"""The data of the page as one JSON document: the trace, its inputs, and every method's numbers."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..attribution.findings.contrast import contrast_document
from ..attribution.findings.regions import region_entry
from ..attribution.findings.verification_document import verification_document
from ..attribution.result import Attribution, RankedInput
from ..errors import InputError
from ..system.version import __version__
from ..tracing.spans import word_pieces
from ..types import Kind, Panel, Patch, Trace
from .exported_methods import export_methods, named_targets, target_entry
from .palette import DARK_STOPS, STOPS

MAX_SIDE = 1200  # pixels of an embedded picture
LARGE = 250_000  # bytes from which a picture is embedded as JPEG
_SHOWN: tuple[Kind, ...] = ("question", "response")
LETTERS = {"image": "i", "question": "q", "template": "t", "response": "r"}


def export(results: Sequence[Attribution], title: str = "", remarks: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document. All results belong to one trace; a method may have results for several targets."""
    if not results:
        raise InputError("there is no attribution to show; give at least one")
    first = results[0]
    trace = first.trace
    if any(result.trace is not trace and result.trace.ids != trace.ids for result in results):
        raise InputError("these attributions belong to different responses; write a page for each")
    remarks = remarks or {}
    exported = export_methods(results)
    shown = {result.method for result in results}
    return {
        "title": title or f"VTrace: {trace.question}",
        "heading": title,
        "model": trace.model_label,
        "version": __version__,
        "answer": trace.answer_text,
        "warnings": [
            *(note for note in first.warnings if not note.startswith("calibration")),
            *exported.left_out,
            *(f"Not run: {reason}" for name, reason in remarks.items() if name not in shown),
        ],
        "stops": STOPS,
        "darkStops": DARK_STOPS,
        "kinds": "".join(LETTERS[kind] for kind in trace.kinds),
        "promptLength": trace.prompt_length,
        **_text(trace),
        **_pictures(first),
        "targets": [target_entry(target) for target in named_targets(trace)],
        "target": target_entry(first.target),
        "methods": [{**entry, "remark": remarks.get(entry["method"], "")} for entry in exported.methods],
        "matrices": exported.matrices,
        "regions": [region_entry(region, first.scores) for region in first.regions],
        "contrast": None if first.contrast is None else contrast_document(first.contrast),
        "verifications": [
            {"method": result.method, "target": target_entry(result.target), **verification_document(found)}
            for result in results
            if (found := result.verification) is not None
        ],
    }


def _text(trace: Trace) -> dict[str, Any]:
    """Response, tokens and words; offsets count UTF-16 units, as JavaScript does."""
    start = trace.response_span[0]
    units = np.concatenate([[0], np.cumsum([1 + (ord(letter) > 0xFFFF) for letter in trace.text[start:]])])

    def place(character: int) -> int:
        return int(units[min(max(character - start, 0), len(units) - 1)])

    shown = {
        word.start: [text, before, after] for kind in _SHOWN for word, before, text, after in word_pieces(trace, kind)
    }
    return {
        "response": trace.response,
        "offsets": [[place(low), place(high)] for low, high in trace.offsets[trace.prompt_length :]],
        # kind, first position, one past the last, text; and, for shown words, the whitespace around it
        "words": [[LETTERS[w.kind], w.start, w.stop, *shown.get(w.start, [w.text])] for w in trace.words],
    }


def _pictures(attribution: Attribution) -> dict[str, Any]:
    """Pictures, the panels that show them, and all inputs: patches and question words in the order of the sequence."""
    trace = attribution.trace
    panels = sorted({Panel(patch.image, patch.view) for patch in trace.patches})
    ordered = sorted(attribution.ranking(), key=lambda item: (item.kind != "image", item.positions))
    patches = {patch.position: patch for patch in trace.patches}
    return {
        "panels": [
            {
                "title": trace.panel_name(panel),
                "image": panel.image if panel.image < len(trace.images) else None,
                "size": _size(trace, panel.image),
                "view": panel.view,
            }
            for panel in panels
        ],
        "pictures": [data_url(image) for image in trace.images],
        "inputs": [_input(item, patches.get(item.positions[0]), panels) for item in ordered],
    }


def _input(item: RankedInput, patch: Patch | None, panels: list[Panel]) -> dict[str, Any]:
    """A question word, or a patch with its place on its panel."""
    entry: dict[str, Any] = {"label": item.label, "start": item.positions[0], "stop": item.positions[-1] + 1}
    if patch is None:
        return entry
    place = {"row": patch.row, "column": patch.column, "box": [round(v, 2) for v in patch.box]}
    return {**entry, "panel": panels.index(Panel(patch.image, patch.view)), **place}


def _size(trace: Trace, image: int) -> list[float]:
    """Width and height of a picture; if the trace was saved without pictures, only the grid is known."""
    if image < len(trace.images):
        return list(trace.images[image].size)
    boxes = [patch.box for patch in trace.patches if patch.image == image]
    return [max(box[2] for box in boxes), max(box[3] for box in boxes)]


def data_url(image: Image.Image) -> str:
    """A picture as text: PNG, or JPEG if the PNG would be large."""
    if max(image.size) > MAX_SIDE:
        image = image.copy()
        image.thumbnail((MAX_SIDE, MAX_SIDE))
    buffer, kind = io.BytesIO(), "png"
    image.save(buffer, "PNG", optimize=True)
    if buffer.tell() > LARGE:
        buffer, kind = io.BytesIO(), "jpeg"
        image.convert("RGB").save(buffer, "JPEG", quality=85, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
