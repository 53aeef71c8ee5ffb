"""Browse runs of `vtrace evaluate`, and open their examples in the viewer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ..evaluation_runs import RunFacts
from ..job import ExplainedTarget
from ..schemas import Explanation, RunItem, RunItems, refusals
from .dependencies import Runs, Service, jpeg_response

run_routes = APIRouter(prefix="/api/runs")


@run_routes.get("")
def list_runs(runs: Runs) -> list[RunFacts]:
    """The runs in the server's folder."""
    return runs.all()


@run_routes.get("/{run}/items", responses=refusals(422))
def list_items(
    runs: Runs,
    run: str,
    correct: Annotated[bool | None, Query(description="Only correct, or only wrong answers.")] = None,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    count: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RunItems:
    """Examples of a run, in its order."""
    found = runs.items(run, correct, offset, count)
    return RunItems(total=found.total, items=found.items)


@run_routes.get("/{run}/items/{key}", responses=refusals(422))
def get_item(runs: Runs, run: str, key: str) -> RunItem:
    """One example and its scores."""
    found = runs.item(run, key)
    return RunItem(facts=found.facts, scores=found.scores)


@run_routes.get("/{run}/items/{key}/picture", response_class=Response, responses=refusals(422))
def item_picture(service: Service, runs: Runs, run: str, key: str) -> Response:
    """The picture of an example."""
    return jpeg_response(service.shown(lambda: runs.frozen(run, key)))


@run_routes.post("/{run}/items/{key}/explanations", status_code=202, responses=refusals(422, 429, 503))
def explain_item(
    service: Service,
    runs: Runs,
    response: Response,
    run: str,
    key: str,
    methods: Annotated[list[str] | None, Query(description="Some of the server's methods; default: the first.")] = None,
    target: ExplainedTarget = "response",
) -> Explanation:
    """Explain a response of a run, with the same tokens, to open it in the viewer."""
    record = service.submit_frozen(lambda: runs.frozen(run, key), methods or [], target)
    response.headers["location"] = f"/api/explanations/{record.id}"
    return Explanation.of(record, service.place(record))
