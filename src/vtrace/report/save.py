"""Save traces and results, and show results in a notebook."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..attribution.findings.evidence_regions import coco_document
from ..attribution.result import Attribution
from ..errors import InputError
from ..methods.comparison import Comparison
from ..system.files import write_atomically
from ..types import Trace
from ..viewer.page import page
from .attribution.figure import attribution_figure, draw_attribution
from .comparison.figure import comparison_figure, draw_comparison
from .documents import attribution_document, comparison_document
from .notebook_cell import notebook_bundle
from .trace_document import trace_document
from .wording import cost_remarks

Form = Literal["json", "html", "png", "pdf", "svg"]
Writer = Callable[[Any, Path], object]
_FIGURES = ("png", "pdf", "svg")


def save(thing: Trace | Attribution | Comparison, path: str | Path, form: Form | None = None) -> Path:
    """Write a file atomically: JSON, the viewer as one self-contained page, or a figure as PNG, PDF or SVG.

    The file name's suffix selects the format, unless `form` does. A trace is saved as JSON only.
    """
    place = Path(path)
    writers = _WRITERS[type(thing)]
    writer = writers.get(form or place.suffix.lower().removeprefix("."))
    if writer is None:
        endings = [f".{name}" for name in writers]
        known = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
        raise InputError(f"cannot save as {place.name!r}: the name has to end in {known}")
    return write_atomically(place, lambda file: writer(thing, file))


def save_boxes(attribution: Attribution, path: Path) -> Path:
    """Write the boxes of the strongest evidence, in the layout of COCO."""
    found = tuple(region for region in attribution.regions if region.kind == "evidence")
    text = json.dumps(coco_document(attribution.trace, found, attribution.scores), ensure_ascii=False, indent=1)
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


def notebook(thing: Attribution | Comparison) -> dict[str, str]:
    """What a notebook shows, by media type."""
    if isinstance(thing, Comparison):
        return notebook_bundle(_comparison_html(thing), comparison_figure(thing), repr(thing))
    return notebook_bundle(page([thing]), attribution_figure(thing), repr(thing))


def _as_json(document: Callable[[Any], dict[str, Any]]) -> Writer:
    return lambda thing, file: file.write_text(json.dumps(document(thing), ensure_ascii=False), "utf-8")


def _attribution_page(attribution: Attribution, file: Path) -> None:
    file.write_text(page([attribution]), "utf-8")


def _comparison_page(comparison: Comparison, file: Path) -> None:
    file.write_text(_comparison_html(comparison), "utf-8")


def _comparison_html(comparison: Comparison) -> str:
    remarks = {**cost_remarks(comparison), **comparison.failures}
    return page(list(comparison.results.values()), remarks=remarks, compared=comparison.compared)


_WRITERS: Mapping[type, Mapping[str, Writer]] = {
    Trace: {"json": _as_json(trace_document)},
    Attribution: {
        "json": _as_json(attribution_document),
        "html": _attribution_page,
        **dict.fromkeys(_FIGURES, draw_attribution),
    },
    Comparison: {
        "json": _as_json(comparison_document),
        "html": _comparison_page,
        **dict.fromkeys(_FIGURES, draw_comparison),
    },
}
