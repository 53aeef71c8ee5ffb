"""The HTTP interface as one application. Responses are JSON except for pictures, the viewer page and events."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ..errors import VTraceError, first_line, one_line
from ..system.version import __version__
from .evaluation_runs import EvaluationRuns
from .history import DiskFull, is_disk_full
from .queue import QueueClosed, QueueFull
from .routes.experiments import experiment_routes
from .routes.explanations import explanation_routes
from .routes.runs import run_routes
from .routes.server import server_routes
from .security import Guard
from .service import ExplanationService, NoSuchExplanation, NotPossibleNow

STATIC = Path(__file__).parent / "static"
START_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(service: ExplanationService, runs: EvaluationRuns, token: str = "") -> ASGIApp:
    """The application around a service, which the caller starts and stops. The guard stands outside everything."""
    app = FastAPI(
        title="VTrace",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        summary="Explain what a vision-language model based its answer on.",
    )
    app.state.service, app.state.runs = service, runs
    for routes in (server_routes, explanation_routes, experiment_routes, run_routes):
        app.include_router(routes)
    app.add_api_route("/", start_page, include_in_schema=False, methods=["GET", "HEAD"])
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(VTraceError, _bad_input)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(NoSuchExplanation, _not_found)
    app.add_exception_handler(NotPossibleNow, _conflict)
    app.add_exception_handler(QueueFull, _full)
    app.add_exception_handler(QueueClosed, _stopping)
    app.add_exception_handler(sqlite3.Error, _storage_fails)
    app.add_exception_handler(OSError, _storage_fails)
    app.add_exception_handler(DiskFull, _storage_fails)
    app.add_exception_handler(ResponseValidationError, _damaged)
    app.add_exception_handler(Exception, _bug)
    return Guard(app, token, service.limits.upload_bytes, service.limits.body_seconds)


def start_page() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers={"content-security-policy": START_POLICY})


def _bad_input(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """One line that does not repeat what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)


def _not_found(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "there is no such explanation or experiment"}, 404)


def _conflict(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)


def _full(request: Request, error: Exception) -> JSONResponse:
    wait = request.app.state.service.queue.retry_after()
    return JSONResponse({"detail": f"the queue is full; try again in {wait} s"}, 429, {"retry-after": str(wait)})


def _stopping(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the server is stopping"}, 503, {"retry-after": "10"})


def _storage_fails(request: Request, error: Exception) -> JSONResponse:
    """Finished results are safe."""
    if isinstance(error, DiskFull) or is_disk_full(error):
        return JSONResponse({"detail": "the disk is full; free some space or delete explanations"}, 507)
    return JSONResponse({"detail": f"the history cannot be read or written: {one_line(first_line(error))}"}, 503)


def _damaged(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "this run is damaged: its rows have values of the wrong kind"}, 422)


def _bug(request: Request, error: Exception) -> JSONResponse:
    """The traceback goes to the server's log."""
    return JSONResponse({"detail": "an error inside VTrace; see the server's log"}, 500)
