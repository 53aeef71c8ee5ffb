"""An attribution to look at: console, PNG, the viewer in one HTML file, or JSON that loads back."""

from __future__ import annotations

import json
from pathlib import Path

from ..attribution import Attribution
from ..documents import attribution_document, trace_document
from ..errors import InputError
from ..files import write_atomically
from ..types import Trace


def save(thing: Attribution | Trace, path: str | Path) -> Path:
    """Write a trace (.json) or an attribution (.json, .html, .png) in the format of the name's ending."""
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
    from ..viewer import write_page

    return write_page([attribution], path)


def save_png(attribution: Attribution, path: str | Path) -> Path:
    from .png import draw

    return write_atomically(path, lambda file: draw(attribution, file))
