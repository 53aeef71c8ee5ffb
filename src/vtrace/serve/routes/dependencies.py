"""Dependencies of routes: the service, the runs, validated parts of the path."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request, Response

from ..evaluation_runs import EvaluationRuns
from ..service import ExplanationService


def service_of(request: Request) -> ExplanationService:
    return request.app.state.service


def runs_of(request: Request) -> EvaluationRuns:
    return request.app.state.runs


Service = Annotated[ExplanationService, Depends(service_of)]
Runs = Annotated[EvaluationRuns, Depends(runs_of)]
ExplanationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


def jpeg_response(data: bytes) -> Response:
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})
