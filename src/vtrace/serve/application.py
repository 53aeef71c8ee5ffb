"""The HTTP interface. Every answer is JSON but for pictures, the viewer page and the stream of events."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from .. import __version__
from ..errors import VTraceError
from . import evaluations, explanations
from .desk import Desk
from .guard import Guard
from .queue import Closed, Full
from .runs import Runs

STATIC = Path(__file__).parent / "static"
START_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(desk: Desk, runs: Runs, token: str = "") -> FastAPI:
    """The application around a desk. The caller opens and shuts the desk."""
    app = FastAPI(
        title="VTrace", version=__version__, docs_url=None, redoc_url=None,
        summary="Explain what a vision-language model based its answer on.",
    )  # fmt: skip
    app.state.desk, app.state.runs = desk, runs
    app.include_router(explanations.router)
    app.include_router(evaluations.router)
    app.add_api_route("/", start_page, include_in_schema=False, methods=["GET", "HEAD"])
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(VTraceError, _bad_input)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Full, _full)
    app.add_exception_handler(Closed, _closed)
    app.add_exception_handler(sqlite3.Error, _unwritable)
    app.add_middleware(Guard, token=token, upload_bytes=desk.limits.upload_bytes)
    return app


def start_page() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers={"content-security-policy": START_POLICY})


def _bad_input(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """One line, without repeating what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)


def _full(request: Request, error: Exception) -> JSONResponse:
    wait = request.app.state.desk.queue.retry_after()
    return JSONResponse({"detail": f"the queue is full; try again in {wait} s"}, 429, {"retry-after": str(wait)})


def _closed(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the server is stopping"}, 503, {"retry-after": "10"})


def _unwritable(request: Request, error: Exception) -> JSONResponse:
    """A full disk, mostly. What is finished is safe."""
    return JSONResponse({"detail": f"the history cannot be used: {error}"}, 503)
