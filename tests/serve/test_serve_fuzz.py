"""The interface under what its own description allows and forbids: it may refuse, and never breaks."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest

from support.serving import serving
from support.waiting import PATIENCE
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.run import evaluate

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(pinhole, tmp_path_factory):
    place = tmp_path_factory.mktemp("serve")
    evaluate(
        pinhole,
        find_benchmark("shapes"),
        EvaluationPlan(methods=("random",), steps=2),
        place / "runs" / "first",
        limit=1,
    )
    with serving(lambda name: pinhole, place / "history.sqlite", place / "runs", new_tokens=8) as client:
        done = client.ask(example="test-00011")[2]["id"]
        client.wait(done, "done")
        key = client.get("/api/runs/first/items")[1]["items"][0]["key"]
        place = f"/api/explanations/{done}/experiments"
        body = b'{"kind": "hide", "positions": [40]}'
        tried = json.loads(client.send("POST", place, body, {"content-type": "application/json"})[2])["id"]
        client.known = {"id": done, "run": "first", "key": key, "experiment": tried}
        client.service.limits = replace(client.service.limits, patience=1.0)  # nobody follows what comes now
        yield client


# The server runs in this process, and run-time type checks in its threads draw random numbers.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_breaks_the_server(client, mode):
    described = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 10
    for operation in operations:

        @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def probe(case):
            check(case)
            if case.path_parameters and case.method != "DELETE":  # the same about something that exists
                case.path_parameters.update({k: v for k, v in client.known.items() if k in case.path_parameters})
                check(case)
            if isinstance(case.body, dict):
                case.body.pop("pictures", None)
                case.body["example"] = "test-00011"
                check(case)

        with suppress(Unsatisfiable):  # an operation without parameters cannot be asked wrongly
            probe()


def check(case) -> None:
    answer = case.call(timeout=PATIENCE)
    assert answer.status_code < 500, f"{case.method} {case.path}: {answer.text}"
