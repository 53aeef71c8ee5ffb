"""Browse runs of `vtrace evaluate`, and open their examples in the viewer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from ..errors import InputError
from .explanations import Explanation, Target, TheDesk, accept, answers, jpeg
from .limits import thumbnail
from .runs import ItemFacts, ItemScores, RunFacts, Runs

router = APIRouter(prefix="/api/runs")


class Items(BaseModel):
    """One page of a run."""

    total: int
    items: list[ItemFacts]


class Item(BaseModel):
    """One example of a run with everything that was measured on it."""

    facts: ItemFacts
    scores: list[ItemScores]


def runs_of(request: Request) -> Runs:
    return request.app.state.runs


TheRuns = Annotated[Runs, Depends(runs_of)]


@router.get("")
def list_runs(runs: TheRuns) -> list[RunFacts]:
    """The runs in the server's folder."""
    return runs.all()


@router.get("/{run}/items", responses=answers(422))
def list_items(
    runs: TheRuns,
    run: str,
    correct: Annotated[bool | None, Query(description="Only right, or only wrong answers.")] = None,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    count: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Items:
    """Examples of a run, in its order."""
    total, items = runs.items(run, correct, offset, count)
    return Items(total=total, items=items)


@router.get("/{run}/items/{key}", responses=answers(422))
def look_at_item(runs: TheRuns, run: str, key: str) -> Item:
    """One example and its scores."""
    facts, scores = runs.item(run, key)
    return Item(facts=facts, scores=scores)


@router.get("/{run}/items/{key}/picture", response_class=Response, responses=answers(422))
def item_picture(runs: TheRuns, run: str, key: str) -> Response:
    """The picture of an example."""
    return jpeg(thumbnail(runs.frozen(run, key)[1].images[0]))


@router.post("/{run}/items/{key}/explanations", status_code=202, responses=answers(422, 429, 503))
def explain_item(
    desk: TheDesk,
    runs: TheRuns,
    response: Response,
    run: str,
    key: str,
    methods: Annotated[list[str] | None, Query(description="Of the server's; default: its first.")] = None,
    target: Target = "response",
) -> Explanation:
    """Explain the response of a run again, token for token, and open it in the viewer."""
    model, example, reply = runs.frozen(run, key)
    if model not in desk.models.names:
        raise InputError(f"this run was made with {model}; start the server with --model {model} to open its examples")
    return accept(desk, response, model, methods or [], target, example, reply)
