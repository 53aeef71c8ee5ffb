"""Whether the parts of a trace from a file fit together."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..types import Span, Trace

_MOST_CELLS = 100_000  # rows or columns of patches in one picture


def check_trace(trace: Trace) -> None:
    """Refuse a trace whose positions, characters or pictures do not exist."""
    size, start = len(trace.ids), trace.prompt_length
    _require(len(trace.offsets) == len(trace.kinds) == size, "ids, offsets and kinds differ in length")
    _require(0 < start < size, "prompt_length is outside the sequence")
    _require(all(0 <= token < 2**31 for token in trace.ids), "ids has a number that is no token")
    said = all((kind == "response") == (position >= start) for position, kind in enumerate(trace.kinds))
    _require(said, "kinds does not say 'response' from prompt_length on, and only there")
    spans = [trace.response_span, trace.reasoning, *trace.sentences, *([trace.answer] if trace.answer else [])]
    _check_spans([*trace.offsets, *spans], trace.text, "text")
    _require(trace.response_span.start < trace.response_span.stop, "response_span is empty")
    _check_spans(trace.evidence_words, trace.question, "question")
    for word in trace.words:
        _require(0 <= word.start < word.stop <= size and word.kind != "image", "words has positions that do not exist")
    _check_pictures(trace)


def _check_spans(spans: Iterable[Span], text: str, name: str) -> None:
    _require(all(0 <= low <= high <= len(text) for low, high in spans), f"a span lies outside the {name}")


def _check_pictures(trace: Trace) -> None:
    shown = [position for position, kind in enumerate(trace.kinds) if kind == "image"]
    _require(sorted(patch.position for patch in trace.patches) == shown, "patches and image positions differ")
    for patch in trace.patches:
        _require(0 <= patch.row < _MOST_CELLS and 0 <= patch.column < _MOST_CELLS, "a patch has no such row or column")
        _require(patch.view in (0, 1), "a patch has no such view")
    boxes = [*(patch.box for patch in trace.patches), *trace.evidence_boxes]
    _require(all(math.isfinite(side) for box in boxes for side in box), "a box has a side that is no number")
    count = len(trace.images) or len(trace.patches)  # a trace can be saved without its pictures
    _require(all(0 <= patch.image < count for patch in trace.patches), "a patch shows a picture that does not exist")
    parts = [part for turn in trace.turns for part in turn.parts]
    if trace.turns and trace.images:
        _require(parts.count(None) == len(trace.images), "turns and pictures differ in number")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
