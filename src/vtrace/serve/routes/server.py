"""What this server offers: models, methods, limits and embedded examples."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import get_args

from fastapi import APIRouter, HTTPException, Response

from ...benchmarks.embedded import example
from ...methods.registry import METHODS
from ...system.version import __version__
from ..job import ExplainedTarget
from ..schemas import ExampleFacts, MethodFacts, ServerFacts, refusals
from ..submission import OFFERED_EXAMPLES
from ..uploads import thumbnail
from .dependencies import Service, jpeg_response

server_routes = APIRouter(prefix="/api")


@server_routes.get("/server")
def describe_server(service: Service) -> ServerFacts:
    """Models, methods, examples and limits."""
    return ServerFacts(
        version=__version__,
        models=list(service.models.names),
        methods=[
            MethodFacts(name=name, about=METHODS[name].about, cost=METHODS[name].cost, speed=METHODS[name].speed)
            for name in service.methods
        ],
        targets=list(get_args(ExplainedTarget)),
        examples=_examples(),
        limits=asdict(service.limits),
    )


@server_routes.get("/examples/{key}/picture", response_class=Response, responses=refusals(404))
def example_picture(key: str) -> Response:
    """The picture of an embedded example."""
    if key not in OFFERED_EXAMPLES:
        raise HTTPException(404, "there is no such example")
    return jpeg_response(thumbnail(example(key).images[0]))


@cache
def _examples() -> list[ExampleFacts]:
    return [ExampleFacts(key=key, question=example(key).question) for key in OFFERED_EXAMPLES]
