"""Dependencies of routes: the service, the runs, validated parts of the path."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Path, Request, Response

from ..evaluation_runs import EvaluationRuns
from ..service import ExplanationService


def service_of(request: Request) -> ExplanationService:
    return request.app.state.service


def runs_of(request: Request) -> EvaluationRuns:
    return request.app.state.runs


Service = Annotated[ExplanationService, Depends(service_of)]
Runs = Annotated[EvaluationRuns, Depends(runs_of)]
ExplanationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
LastEvent = Annotated[str, Header(description="Continue after this event.")]


def characters_sent(last_event: str) -> int:
    """How much of the text a client has that continues after an event."""
    return min(int(last_event), 2**31) if re.fullmatch("[0-9]{1,10}", last_event) else 0


def jpeg_response(data: bytes) -> Response:
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})
