"""Progress of a job as server-sent events. A slow client gets fewer and larger ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi.sse import ServerSentEvent

from .job import FINAL, Job, JobState, JobStatus
from .schemas import ProgressEvent


async def follow_job(job: Job, sent: int) -> AsyncIterator[ServerSentEvent]:
    """Events until the job ends. The client already has `sent` characters of the text."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has stopped, and its loop is closed
            loop.call_soon_threadsafe(changed.set)

    with job.watched(wake):
        while True:
            changed.clear()
            state, place = job.state, job.place
            yield _event(state, place if state.status == "waiting" else 0, sent)
            sent = max(sent, len(state.text))
            if state.status in FINAL:
                return
            await changed.wait()


async def report_ended(
    status: JobStatus, text: str | None, error: str | None, sent: int
) -> AsyncIterator[ServerSentEvent]:
    """The one event of a job that ended earlier."""
    yield _event(JobState(status=status, text=text or "", error=error), 0, sent)


def _event(state: JobState, place: int, sent: int) -> ServerSentEvent:
    """One event. Its id is the number of characters that the client then has."""
    data = ProgressEvent(
        status=state.status,
        place=place,
        stage=state.stage,
        done=state.done,
        total=state.total,
        text=state.text[sent:],
        error=state.error,
    )
    return ServerSentEvent(data=data, id=str(max(sent, len(state.text))))
