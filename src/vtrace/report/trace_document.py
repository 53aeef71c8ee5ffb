"""A trace as versioned JSON, and back. It needs no model, so it imports neither PyTorch nor transformers."""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import InputError, first_line
from ..system.json_reader import read_json
from ..system.typed_json import as_typed, typed_fields
from ..tracing.pictures import open_images
from ..types import Trace
from .trace_check import check_trace

TRACE_SCHEMA = "vtrace.trace/1"
ATTRIBUTION_SCHEMA = "vtrace.attribution/2"
AGAIN = {  # what to do with a file of an older version
    TRACE_SCHEMA: "ask the model again",
    ATTRIBUTION_SCHEMA: "explain the trace again",
}


def read_trace(path: str | Path) -> Trace:
    """The trace in a file: a saved trace, or that of a saved attribution."""
    path = Path(path)
    document = read_json(path, "a VTrace file")
    with readable_document(document, str(path)) as schema:
        return trace_from(document if schema == TRACE_SCHEMA else document["trace"])


@contextmanager
def readable_document(document: Any, name: str) -> Iterator[str]:
    """The schema of a document that can be loaded. What goes wrong while it is read becomes one line."""
    schema = str(document.get("schema")) if isinstance(document, dict) else "none"
    if schema not in AGAIN:
        raise _unreadable(schema, name)
    try:
        yield schema
    except KeyError as error:
        raise InputError(f"{name} is damaged: it has no field {error}") from error
    except Exception as error:  # a damaged file can fail anywhere
        raise InputError(f"{name} is damaged: {first_line(error)}") from error


def _unreadable(schema: str, name: str) -> InputError:
    """The error for another version of a known format, or for an unknown one."""
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
    length = None if trace.probed else -1  # without a confidence
    fields["patches"] = [dataclasses.astuple(patch)[:length] for patch in trace.patches]
    fields["words"] = [dataclasses.astuple(word) for word in trace.words]
    fields["turns"] = [dataclasses.astuple(turn) for turn in trace.turns]
    return {"schema": TRACE_SCHEMA, **fields}


def trace_from(document: Any) -> Trace:
    """The trace of a document, or whatever error its damage leads to."""
    fields = typed_fields(Trace, document, "trace", without=("schema", "images", "processed"))
    pictures = as_typed(tuple[str, ...] | None, document["images"], "trace.images") or ()
    trace = Trace(**fields, images=open_images([base64.b64decode(data, validate=True) for data in pictures]))
    check_trace(trace)
    return trace


def encode_image(image: Image.Image) -> str:
    """PNG in base64."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")
