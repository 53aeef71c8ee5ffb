"""Server-sent events: where a job stands, and the new part of its text. A slow client gets fewer, larger ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from .queue import Job
from .store import FINAL, Record

HEARTBEAT = 10.0  # seconds of silence before a comment is sent, which finds out whether the client is still there


async def follow(job: Job, sent: int) -> AsyncIterator[str]:
    """Events until the job ends. `sent` characters of the text are known to the client already."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has stopped, and its loop is closed
            loop.call_soon_threadsafe(changed.set)

    with job.watched(wake):
        while True:
            changed.clear()
            state, place = job.state, job.place
            fresh, sent = state.text[sent:], max(sent, len(state.text))
            yield event(
                sent, status=state.status, place=place if state.status == "waiting" else 0, stage=state.stage,
                done=state.done, total=state.total, text=fresh, error=state.error,
            )  # fmt: skip
            if state.status in FINAL:
                return
            try:
                await asyncio.wait_for(changed.wait(), HEARTBEAT)
            except TimeoutError:
                yield ": still here\n\n"


async def told(record: Record, sent: int) -> AsyncIterator[str]:
    """The one event of a job that ended earlier."""
    text = record.response or ""
    yield event(
        len(text), status=record.status, place=0, stage="", done=0, total=0, text=text[sent:], error=record.error
    )  # fmt: skip


def event(id: int, **data: Any) -> str:
    """JSON has no line breaks, so one data line is enough."""
    return f"id: {id}\ndata: {json.dumps(data)}\n\n"
