"""Experiments on an explanation: hide inputs and ask again, contrast two answers, verify."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from ..experiment import ExperimentRequest
from ..experiment_table import Experiment
from ..progress_events import follow_job, report_ended
from ..schemas import refusals
from .dependencies import ExplanationId, LastEvent, Service, characters_sent

experiment_routes = APIRouter(prefix="/api/explanations/{id}/experiments")
ExperimentId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


@experiment_routes.post("", status_code=202, responses=refusals(404, 409, 422, 429, 503))
def submit_experiment(
    service: Service, response: Response, id: ExplanationId, request: Annotated[ExperimentRequest, Body()]
) -> Experiment:
    """Try something out on a finished explanation. The result is kept in the history."""
    made = service.experiment(id, request)
    response.headers["location"] = f"/api/explanations/{id}/experiments/{made.id}"
    return made


@experiment_routes.get("", responses=refusals(404))
def list_experiments(service: Service, id: ExplanationId) -> list[Experiment]:
    """All experiments on an explanation, oldest first."""
    return service.history.experiments.of(service.find(id).id)


@experiment_routes.get("/{experiment}", responses=refusals(404))
def get_experiment(service: Service, id: ExplanationId, experiment: ExperimentId) -> Experiment:
    """Status and result of an experiment."""
    return service.find_experiment(id, experiment)


def experiment_events(
    service: Service, id: ExplanationId, experiment: ExperimentId, last_event_id: LastEvent = ""
) -> AsyncIterator[ServerSentEvent]:
    """Looked up before the response begins, so that an unknown id is a 404."""
    service.find_experiment(id, experiment)
    if job := service.queue.find(experiment):
        return follow_job(job, characters_sent(last_event_id))
    found = service.find_experiment(id, experiment)  # it may have ended meanwhile
    return report_ended(found.status, found.text, found.error, characters_sent(last_event_id))


@experiment_routes.get("/{experiment}/events", response_class=EventSourceResponse, responses=refusals(404))
async def follow_experiment(
    events: Annotated[AsyncIterator[ServerSentEvent], Depends(experiment_events)],
) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: status, stage, and the new part of the new response, until it ends."""
    async for event in events:
        yield event


@experiment_routes.post("/{experiment}/cancel", responses=refusals(404))
def cancel_experiment(service: Service, id: ExplanationId, experiment: ExperimentId) -> Experiment:
    """Cancel an experiment. A finished one stays as it is."""
    return service.cancel_experiment(id, experiment)
