"""An attribution to look at: console, PNG, one self-contained HTML page, or JSON that loads back."""

from __future__ import annotations

import json
from pathlib import Path

from ..attribution import Attribution
from ..errors import InputError
from ..files import attribution_document, trace_document, write_atomically
from ..types import Trace


def save(thing: Attribution | Trace, path: str | Path) -> Path:
    """Write a trace (.json) or an attribution (.json, .html, .png) in the format of the name's ending."""
    path = Path(path)
    if isinstance(thing, Trace):
        if path.suffix != ".json":
            raise InputError(f"a trace is saved as .json, not {path.suffix or 'without an ending'}")
        return write_atomically(path, lambda file: file.write_text(dump(trace_document(thing)), encoding="utf-8"))
    match path.suffix.lower():
        case ".json":
            return write_atomically(path, lambda f: f.write_text(dump(attribution_document(thing)), encoding="utf-8"))
        case ".html" | ".htm":
            from .html import page

            return write_atomically(path, lambda file: file.write_text(page(thing), encoding="utf-8"))
        case ".png":
            from .png import draw

            return write_atomically(path, lambda file: draw(thing, file))
    raise InputError(f"cannot save as {path.name!r}: the name has to end in .json, .html or .png")


def dump(document: dict) -> str:
    return json.dumps(document, ensure_ascii=False)
