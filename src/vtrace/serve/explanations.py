"""Ask, follow, cancel, look at, save and forget explanations."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Header, HTTPException, Query, Request, Response, UploadFile
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, Field

from .. import __version__
from ..attribution.result import Attribution
from ..benchmarks.embedded import SHOWN
from ..benchmarks.embedded import example as embedded
from ..errors import InputError
from ..methods.registry import METHODS
from ..report.documents import from_document
from ..tracing.example import tidy
from ..tracing.generate import Reply
from ..types import Example
from ..viewer.page import page, policy
from . import events
from .desk import Desk
from .limits import open_uploads, thumbnail
from .queue import Request as Asked
from .store import Record

EXAMPLES = (SHOWN, *(f"test-{number:05d}" for number in (0, 1, 2, 4, 5, 7, 8)))
TARGETS = ("response", "answer")
Target = Literal["response", "answer"]

router = APIRouter(prefix="/api")


class Problem(BaseModel):
    detail: str


def answers(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What else an operation can answer, for the schema."""
    return {code: {"model": Problem} for code in codes}


class MethodFacts(BaseModel):
    name: str
    about: str
    cost: str
    speed: str


class ExampleFacts(BaseModel):
    key: str
    question: str


class ServerFacts(BaseModel):
    """What this server can do, and what it accepts."""

    version: str
    models: list[str]
    methods: list[MethodFacts]
    targets: list[str]
    examples: list[ExampleFacts]
    limits: dict[str, float]


class Explanation(BaseModel):
    """One explanation: where it stands, and what came of it."""

    id: str
    number: int = Field(description="Counts up; `before` of the history takes it.")
    status: Literal["waiting", "running", "done", "failed", "cancelled", "interrupted"]
    place: int = Field(description="Place in the queue; 1 is next, 0 is not waiting.")
    created: float = Field(description="Seconds since 1970.")
    seconds: float | None = Field(description="Of work.")
    model: str
    methods: list[str]
    target: str
    question: str
    response: str | None
    answer: str | None
    error: str | None


def desk_of(request: Request) -> Desk:
    return request.app.state.desk


TheDesk = Annotated[Desk, Depends(desk_of)]
Id = Annotated[str, InPath(pattern="^[0-9a-f]{32}$")]


@router.get("/server")
def server(desk: TheDesk) -> ServerFacts:
    """Models, methods, examples and limits."""
    return ServerFacts(
        version=__version__, models=list(desk.models.names), targets=list(TARGETS),
        methods=[
            MethodFacts(name=name, about=METHODS[name].about, cost=METHODS[name].cost, speed=METHODS[name].speed)
            for name in desk.methods
        ],
        examples=_examples(),
        limits=asdict(desk.limits),
    )  # fmt: skip


@router.get("/examples/{key}/picture", response_class=Response, responses=answers(404))
def example_picture(key: str) -> Response:
    """The picture of an embedded example."""
    if key not in EXAMPLES:
        raise HTTPException(404, "there is no such example")
    return jpeg(thumbnail(embedded(key).images[0]))


@router.post("/explanations", status_code=202, responses=answers(413, 422, 429, 503))
def ask(
    desk: TheDesk,
    response: Response,
    question: Annotated[str, Form(description="About the pictures.", min_length=1)],
    pictures: Annotated[list[UploadFile] | None, File(description="PNG, JPEG, WebP or GIF.")] = None,
    example: Annotated[str, Form(description="An embedded example, instead of pictures.")] = "",
    model: Annotated[str, Form(description="One of the server's; default: its first.")] = "",
    methods: Annotated[list[str] | None, Form(description="Of the server's; default: its first.")] = None,
    target: Annotated[Target, Form(description="What is explained.")] = "response",
) -> Explanation:
    """Ask a question about pictures. The work is cancelled if nobody follows or asks for it for a while."""
    limits = desk.limits
    if len(question) > limits.question:
        raise InputError(f"the question has {len(question)} characters; the limit is {limits.question}")
    uploads = [upload.file.read() for upload in pictures or [] if upload.size or upload.filename]
    if example and uploads:
        raise InputError("pictures and an example exclude each other; give one of them")
    if example:
        asked = _example(example, question)
    else:
        asked = tidy(Example(open_uploads(uploads, limits), question))
    return accept(desk, response, _choose("model", model, desk.models.names), methods or [], target, asked)


def accept(
    desk: Desk, response: Response, model: str, methods: list[str], target: str, asked: Example,
    reply: Reply | None = None,
) -> Explanation:  # fmt: skip
    """Put a checked example into the queue."""
    if len(methods) > desk.limits.methods:
        raise InputError(f"there are {len(methods)} methods; the limit is {desk.limits.methods}")
    chosen = tuple(dict.fromkeys(_choose("method", name, desk.methods) for name in methods or [""]))
    id = uuid.uuid4().hex
    desk.accept(Asked(id, model, chosen, target, asked, reply))
    response.headers["location"] = f"/api/explanations/{id}"
    return _shown(desk, _find(desk, id))


@router.get("/explanations")
def history(
    desk: TheDesk,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only those with a smaller number.")] = None,
    count: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[Explanation]:
    """Earlier explanations, newest first."""
    return [_shown(desk, record) for record in desk.store.history(before, count)]


@router.get("/explanations/{id}", responses=answers(404))
def look(desk: TheDesk, id: Id) -> Explanation:
    """Where an explanation stands."""
    if job := desk.queue.find(id):
        job.touch()
    return _shown(desk, _find(desk, id))


@router.get(
    "/explanations/{id}/events", response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}, **answers(404)},
)  # fmt: skip
def follow(
    desk: TheDesk, id: Id, last_event_id: Annotated[str, Header(description="Goes on after this event.")] = ""
) -> StreamingResponse:
    """Progress as server-sent events: status, place, stage, and the new part of the response, until it ends."""
    known = min(int(last_event_id), 2**31) if re.fullmatch("[0-9]{1,10}", last_event_id) else 0
    job = desk.queue.find(id)
    stream = events.told(_find(desk, id), known) if job is None else events.follow(job, known)
    return StreamingResponse(stream, media_type="text/event-stream")


@router.post("/explanations/{id}/cancel", responses=answers(404))
def cancel(desk: TheDesk, id: Id) -> Explanation:
    """Give up. What is finished stays."""
    if job := desk.queue.find(id):
        desk.cancel(job, "cancelled")
    return _shown(desk, _find(desk, id))


@router.delete("/explanations/{id}", status_code=204, responses=answers(404, 409))
def forget(desk: TheDesk, id: Id) -> None:
    """Remove an explanation from the history."""
    _find(desk, id)
    if desk.queue.find(id):
        raise HTTPException(409, "this explanation is still in work; cancel it first")
    desk.store.delete(id)


@router.get("/explanations/{id}/picture", response_class=Response, responses=answers(404))
def picture(desk: TheDesk, id: Id) -> Response:
    """A small version of the first picture."""
    _find(desk, id)
    return jpeg(desk.store.thumbnail(id) or b"")


@router.get("/explanations/{id}/page", response_class=HTMLResponse, responses=answers(404, 409))
def view(desk: TheDesk, id: Id, download: bool = False) -> HTMLResponse:
    """The viewer: one self-contained page, to be shown or saved."""
    results = []
    for method, document in _documents(desk, id).items():
        result = from_document(json.loads(document), f"the result of {method}")
        assert isinstance(result, Attribution)
        results.append(result)
    headers = {"content-security-policy": f"{policy()}; frame-ancestors 'self'"}  # only our own page may frame it
    if download:
        headers["content-disposition"] = f'attachment; filename="vtrace-{id[:8]}.html"'
    return HTMLResponse(page(results), headers=headers)


@router.get(
    "/explanations/{id}/result", response_class=Response,
    responses={200: {"content": {"application/json": {}}}, **answers(404, 409)},
)  # fmt: skip
def result(desk: TheDesk, id: Id, method: str = "") -> Response:
    """The attribution as `vtrace.read` loads it, with pictures and matrix; of the first method unless one is named."""
    documents = _documents(desk, id)
    if method and method not in documents:
        raise HTTPException(404, "this explanation has no such method")
    name = method or next(iter(documents))
    headers = {"content-disposition": f'attachment; filename="vtrace-{id[:8]}-{name}.json"'}
    return Response(documents[name], media_type="application/json", headers=headers)


@cache
def _examples() -> list[ExampleFacts]:
    return [ExampleFacts(key=key, question=embedded(key).question) for key in EXAMPLES]


def _example(key: str, question: str) -> Example:
    """An embedded example; its known evidence belongs to its own question only."""
    if key not in EXAMPLES:
        raise InputError(f"there is no such example; there are: {', '.join(EXAMPLES)}")
    found = embedded(key)
    same = found.question == question.strip()
    return found if same else tidy(Example(found.images, question))


def _choose(kind: str, name: str, known: tuple[str, ...]) -> str:
    """A name from the server's own list; the first one when none was given."""
    if name and name not in known:
        raise InputError(f"this server has no such {kind}; it has: {', '.join(known)}")
    return name or known[0]


def _find(desk: Desk, id: str) -> Record:
    record = desk.store.find(id)
    if record is None:
        raise HTTPException(404, "there is no such explanation")
    return record


def _shown(desk: Desk, record: Record) -> Explanation:
    job = desk.queue.find(record.id)
    place = job.place if job and record.status == "waiting" else 0
    return Explanation(**asdict(record), place=place)


def _documents(desk: Desk, id: str) -> dict[str, bytes]:
    record = _find(desk, id)
    if record.status != "done":
        raise HTTPException(409, f"this explanation is {record.status}; there is nothing to look at")
    return desk.store.documents(id)


def jpeg(data: bytes) -> Response:
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})
