"""Responses of the HTTP interface, as pydantic models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from .evaluation_runs import ItemFacts, ItemScores
from .history import HistoryRecord
from .job import ExplainedTarget, JobStatus


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class MethodFacts(BaseModel):
    """A method that can be chosen."""

    name: str
    about: str
    cost: str = Field(description="Forward passes.")
    speed: str


class ExampleFacts(BaseModel):
    """An embedded example."""

    key: str
    question: str


class ServerFacts(BaseModel):
    """What this server offers, and what it accepts."""

    version: str
    models: list[str]
    methods: list[MethodFacts]
    targets: list[ExplainedTarget]
    examples: list[ExampleFacts]
    limits: dict[str, float]


class Explanation(HistoryRecord, frozen=True):
    """One explanation: its progress and its result."""

    place: int = Field(description="Place in the queue: 1 is next, 0 means not waiting.")

    @classmethod
    def of(cls, record: HistoryRecord, place: int) -> Explanation:
        return cls(**dict(record), place=place)


class ProgressEvent(BaseModel):
    """One server-sent event: the progress of a job, and the new part of the response."""

    status: JobStatus
    place: int
    stage: str
    done: int
    total: int
    text: str
    error: str | None


class RunItems(BaseModel):
    """One page of a run."""

    total: int
    items: list[ItemFacts]


class RunItem(BaseModel):
    """One example of a run with everything that was measured on it."""

    facts: ItemFacts
    scores: list[ItemScores]


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The status codes with which an operation can be refused, for the OpenAPI description."""
    return {code: {"model": Problem} for code in codes}
