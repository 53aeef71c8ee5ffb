"""An attribution to look at: console, PNG, the viewer in one HTML file, or JSON that loads back."""

from __future__ import annotations

import json
from pathlib import Path

from ..attribution.result import Attribution
from ..errors import InputError
from ..methods.comparison import Comparison
from ..system.files import write_atomically
from ..types import Trace
from .documents import attribution_document, trace_document


def notebook(thing: Attribution | Comparison) -> str:
    """What a notebook shows."""
    from .comparison_html import fragment as compared
    from .html import fragment

    return compared(thing) if isinstance(thing, Comparison) else fragment(thing)


def save(thing: Attribution | Comparison | Trace, path: str | Path) -> Path:
    """Write a trace (.json), an attribution or a comparison (.json, .html, .png), by the name's ending."""
    if isinstance(thing, Comparison):
        from .comparison import save as save_comparison

        return save_comparison(thing, path)
    ending = Path(path).suffix.lower()
    if ending == ".json":
        return save_json(thing, path)
    if isinstance(thing, Trace):
        raise InputError(f"a trace is saved as .json, not as {Path(path).name!r}")
    if ending == ".html":
        return save_html(thing, path)
    if ending == ".png":
        return save_png(thing, path)
    raise InputError(f"cannot save as {Path(path).name!r}: the name has to end in .json, .html or .png")


def save_json(thing: Attribution | Trace, path: str | Path) -> Path:
    document = trace_document(thing) if isinstance(thing, Trace) else attribution_document(thing)
    return write_atomically(path, lambda file: file.write_text(json.dumps(document, ensure_ascii=False), "utf-8"))


def save_html(attribution: Attribution, path: str | Path) -> Path:
    from ..viewer.page import write_page

    return write_page([attribution], path)


def save_png(attribution: Attribution, path: str | Path) -> Path:
    from .png import draw

    return write_atomically(path, lambda file: draw(attribution, file))
