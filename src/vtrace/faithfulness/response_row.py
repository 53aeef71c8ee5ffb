"""One frozen response as a row of the trace store, with the fingerprint of what was asked."""

from __future__ import annotations

import hashlib
import json

from ..lvlm.model import Lvlm
from ..tracing.reply import Reply, decode_reply
from ..types import Example
from .rows import ResponseRow, ResponseSource


def response_row(
    lvlm: Lvlm, key: str, number: int, example: Example, reply: Reply, source: ResponseSource
) -> ResponseRow:
    return ResponseRow(
        key=key,
        number=number,
        asked=fingerprint(example),
        reply=json.dumps(reply.ids),
        finish=reply.finish,
        text=decode_reply(lvlm, reply.ids),
        source=source,
        round_trips=reply.round_trips,
    )


def fingerprint(example: Example) -> str:
    """Fingerprint of everything in a tidied example that its response depends on and is graded by."""
    asked = (example.question, example.answer, example.response, *example.response_ids)
    asked += ("one sentence",) if example.one_sentence else ()
    digest = hashlib.sha256(repr(asked).encode())
    for image in example.images:
        digest.update(repr(image.size).encode() + image.tobytes())
    return digest.hexdigest()[:16]
