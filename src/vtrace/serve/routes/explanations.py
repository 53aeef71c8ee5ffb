"""Submit, follow, cancel, view, save and delete explanations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, HTTPException, Query, Response, UploadFile
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from ...viewer.page import policy
from ..job import ExplainedTarget
from ..progress_events import follow_job, report_ended
from ..schemas import Explanation, refusals
from ..submission import Submission
from .dependencies import ExplanationId, LastEvent, Service, characters_sent, jpeg_response

explanation_routes = APIRouter(prefix="/api/explanations")


@explanation_routes.post("", status_code=202, responses=refusals(413, 422, 429, 503))
def submit_explanation(
    service: Service,
    response: Response,
    question: Annotated[str, Form(description="About the pictures.", min_length=1)],
    pictures: Annotated[list[UploadFile] | None, File(description="PNG, JPEG, WebP or GIF.")] = None,
    example: Annotated[str, Form(description="An embedded example, instead of pictures.")] = "",
    model: Annotated[str, Form(description="One of the server's models; default: the first.")] = "",
    methods: Annotated[list[str] | None, Form(description="Some of the server's methods; default: the first.")] = None,
    target: Annotated[ExplainedTarget, Form(description="What is explained.")] = "response",
) -> Explanation:
    """Ask a question about pictures. The work is cancelled if no client follows it or polls it for a while."""
    uploads = [upload.file for upload in pictures or [] if upload.size or upload.filename]
    record = service.submit(Submission(question, uploads, example), model, methods or [], target)
    response.headers["location"] = f"/api/explanations/{record.id}"
    return Explanation.of(record, service.place(record))


@explanation_routes.get("")
def list_explanations(
    service: Service,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only those with a smaller number.")] = None,
    count: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[Explanation]:
    """Earlier explanations, newest first."""
    return [Explanation.of(record, service.place(record)) for record in service.history.page(before, count)]


@explanation_routes.get("/{id}", responses=refusals(404))
def get_explanation(service: Service, id: ExplanationId) -> Explanation:
    """Status of an explanation."""
    record = service.look(id)
    return Explanation.of(record, service.place(record))


def events_of(
    service: Service,
    id: ExplanationId,
    last_event_id: LastEvent = "",
) -> AsyncIterator[ServerSentEvent]:
    """Looked up before the response begins, so that an unknown id is a 404."""
    if job := service.queue.find(id):
        return follow_job(job, characters_sent(last_event_id))
    record = service.find(id)
    return report_ended(record.status, record.response, record.error, characters_sent(last_event_id))


@explanation_routes.get("/{id}/events", response_class=EventSourceResponse, responses=refusals(404))
async def follow_explanation(
    events: Annotated[AsyncIterator[ServerSentEvent], Depends(events_of)],
) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: status, place, stage, and the new part of the response, until it ends."""
    async for event in events:
        yield event


@explanation_routes.post("/{id}/cancel", responses=refusals(404))
def cancel_explanation(service: Service, id: ExplanationId) -> Explanation:
    """Cancel an explanation. A finished one stays as it is."""
    record = service.cancel(id)
    return Explanation.of(record, service.place(record))


@explanation_routes.delete("/{id}", status_code=204, responses=refusals(404, 409))
def delete_explanation(service: Service, id: ExplanationId) -> None:
    """Remove an explanation from the history."""
    service.delete(id)


@explanation_routes.get("/{id}/picture", response_class=Response, responses=refusals(404))
def explanation_picture(service: Service, id: ExplanationId) -> Response:
    """A small version of the first picture."""
    return jpeg_response(service.picture(id))


@explanation_routes.get("/{id}/page", response_class=HTMLResponse, responses=refusals(404, 409))
def explanation_page(service: Service, id: ExplanationId, download: bool = False) -> HTMLResponse:
    """The viewer: one self-contained page, to be saved, or to be shown; then it can ask this server again."""
    live = not download
    headers = {"content-security-policy": f"{policy(live)}; frame-ancestors 'self'"}  # only our own page may frame it
    if download:
        headers["content-disposition"] = f'attachment; filename="vtrace-{id[:8]}.html"'
    return HTMLResponse(service.page(id, live), headers=headers)


@explanation_routes.get(
    "/{id}/result",
    response_class=Response,
    responses={200: {"content": {"application/json": {}}}, **refusals(404, 409)},
)
def explanation_result(service: Service, id: ExplanationId, method: str = "") -> Response:
    """The attribution with pictures and matrix, as `vtrace.read` loads it; for the first method unless one is named."""
    found = service.document(id, method)
    if found is None:
        raise HTTPException(404, "this explanation has no such method")
    headers = {"content-disposition": f'attachment; filename="vtrace-{id[:8]}-{found.method}.json"'}
    return Response(found.text, media_type="application/json", headers=headers)
