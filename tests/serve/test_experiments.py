"""Experiments on a served explanation: what was tried is found again, and what cannot be tried is refused in a line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import vtrace
from support.serving import Gate, serving
from support.waiting import wait_until
from vtrace.faithfulness.evidence import evidence_positions
from vtrace.serve import service
from vtrace.serve.history import HISTORY_VERSION
from vtrace.viewer.single_file import LIVE


@pytest.fixture(scope="module")
def client(pinhole, tmp_path_factory):
    """A server that has explained the embedded example."""
    place = tmp_path_factory.mktemp("serve") / "history.sqlite"
    with serving(lambda name: pinhole, place) as client:
        client.id = client.ask(example="test-00011", question=vtrace.example().question, target="answer")[2]["id"]
        client.place = place
        client.wait(client.id, "done")
        yield client


def submit(client, **body):
    path = f"/api/explanations/{client.id}/experiments"
    status, _, answer = client.send("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
    return status, json.loads(answer)


def try_out(client, **body):
    """The events of an experiment, and the experiment when it has ended."""
    status, made = submit(client, **body)
    assert status == 202, made
    path = f"/api/explanations/{client.id}/experiments/{made['id']}"
    events = client.send("GET", f"{path}/events")[2].decode()
    news = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    return news, client.get(path)[1]


@pytest.mark.parametrize("kind", ["hide", "keep"])
def test_hiding_streams_the_new_answer_and_is_what_python_finds(client, pinhole, trace, kind):
    chosen = [*evidence_positions(trace).image, *(trace.positions("question") if kind == "keep" else [])]
    news, found = try_out(client, kind=kind, positions=chosen)
    expected = vtrace.what_if(pinhole, trace, chosen, keep=kind == "keep")
    assert news[-1]["status"] == found["status"] == "done"
    assert "".join(one["text"] for one in news) == found["text"] == expected.text
    assert len([one for one in news if one["text"]]) > 2
    result = found["result"]
    assert (result["answer"], result["first_answer"], result["changed"]) == (
        expected.answer,
        "blue cross",
        expected.changed,
    )
    assert result["hidden"] == list(expected.hidden)
    np.testing.assert_allclose(result["likelihoods"], expected.likelihoods, atol=1e-6)


def test_a_request_is_small_and_positions_are_kept_once(client, trace):
    position = trace.positions("question")[0]
    status, made = submit(client, kind="hide", positions=[position] * 100_000)
    assert (status, made["request"]["positions"]) == (202, [position])
    status, refused = submit(client, kind="hide", positions=[position] * 2_000_000)
    assert (status, refused["detail"].split(" of ")[0]) == (413, "the request is larger than the limit")


def test_an_alternative_answer_is_contrasted_as_in_python(client, pinhole, trace):
    target = list(vtrace.attribute(pinhole, trace, "answer").target.positions)
    found = try_out(client, kind="against", against="red star", target=target)[1]
    expected = vtrace.contrast(pinhole, trace, "red star")
    assert found["result"]["against"] == "red star"
    assert found["result"]["target"]["name"] == "answer"
    np.testing.assert_allclose(found["result"]["scores"], expected.scores, atol=1e-9)


def test_an_explanation_can_be_verified(client):
    news, found = try_out(client, kind="verify", setting="image")
    assert found["result"]["verdict"].startswith("Hiding")
    assert (found["result"]["method"], found["result"]["target"]["name"]) == ("vtrace", "answer")
    assert "asking again" in {one["stage"] for one in news}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"kind": "hide", "positions": []}, "nothing is selected; select patches or words"),
        ({"kind": "hide", "positions": "all"}, "so everything would be hidden; leave some out"),
        ({"kind": "keep", "positions": "all"}, "so nothing would be hidden; leave some out"),
        ({"kind": "hide", "positions": [0]}, "position 0 is neither a patch nor a word"),
        ({"kind": "hide", "positions": [-1]}, "positions"),
        ({"kind": "against", "against": " \n", "target": "answer"}, "the alternative is empty"),
        ({"kind": "against", "against": "\u200b", "target": "answer"}, "the alternative is empty"),
        ({"kind": "against", "against": "red star", "target": [3]}, "tokens"),
        ({"kind": "against", "against": "x" * 1001, "target": [3]}, "at most 1000"),
        ({"kind": "burn"}, "kind"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_what_cannot_be_tried_is_refused_at_once(client, trace, attribution, body, reason):
    if body.get("positions") == "all":
        body = {**body, "positions": trace.inputs}
    if body.get("target") == "answer":
        body = {**body, "target": list(attribution.retarget("answer").target.positions)}
    before = client.get(f"/api/explanations/{client.id}/experiments")[1]
    status, answer = submit(client, **body)
    assert (status, "\n" in answer["detail"]) == (422, False)
    assert reason in answer["detail"]
    assert client.get(f"/api/explanations/{client.id}/experiments")[1] == before


def test_what_only_the_model_can_refuse_ends_with_its_reason(client, attribution):
    target = list(attribution.retarget("answer").target.positions)
    found = try_out(client, kind="against", against="blue cross", target=target)[1]
    assert found["status"] == "failed"
    assert "is what the response says; give another one" in found["error"]


def test_cancelled_experiments_count_as_well(client, trace, monkeypatch):
    """Each takes space in the history."""
    made = client.service.history.experiments.count(client.id)
    monkeypatch.setattr(service, "MOST_EXPERIMENTS", made + 1)
    id = submit(client, kind="hide", positions=[trace.inputs[0]])[1]["id"]
    client.send("POST", f"/api/explanations/{client.id}/experiments/{id}/cancel")
    status, answer = submit(client, kind="hide", positions=[trace.inputs[0]])
    assert (status, answer["detail"]) == (409, f"this explanation has {made + 1} experiments; ask the question again")


def test_experiments_are_kept_shown_and_deleted_with_their_explanation(pinhole, trace, tmp_path):
    place = tmp_path / "history.sqlite"
    with serving(lambda name: pinhole, place) as client:
        client.id = client.ask(example="test-00011", question=trace.question)[2]["id"]
        client.wait(client.id, "done")
        try_out(client, kind="hide", positions=evidence_positions(trace).image)
    with serving(lambda name: pinhole, place) as again:
        (kept,) = again.get(f"/api/explanations/{client.id}/experiments")[1]
        assert kept["status"] == "done"
        assert again.get(f"/api/explanations/{client.id}")[1]["experiments"] == 1
        live = again.send("GET", f"/api/explanations/{client.id}/page")
        saved = again.send("GET", f"/api/explanations/{client.id}/page?download=true")
        assert LIVE in live[1]["content-security-policy"]
        assert LIVE in live[2].decode()
        assert "connect-src" not in saved[1]["content-security-policy"] + saved[2].decode().partition("<style>")[0]
        assert all(kept["id"] in body.decode() for body in (live[2], saved[2]))
        assert again.send("GET", f"/api/explanations/{client.id}/experiments/{'0' * 32}")[0] == 404
        again.service.models.names = ("another",)
        status, answer = submit_to(again, client.id, kind="hide", positions=kept["request"]["positions"])
        assert status == 409
        assert "was made with pinhole; start the server with --model pinhole" in answer["detail"]
        assert again.send("GET", f"/api/explanations/{client.id}/page")[0] == 200, "and nothing is lost"
        assert kept["text"].encode() in place.read_bytes()
        assert again.send("DELETE", f"/api/explanations/{client.id}")[0] == 204
        assert not any(kept["text"].encode() in file.read_bytes() for file in tmp_path.iterdir())
        with closing(sqlite3.connect(place)) as db:
            assert db.execute("SELECT COUNT(*) FROM experiment").fetchone() == (0,)


def submit_to(client, id, **body):
    client.id = id
    return submit(client, **body)


def test_an_unfinished_explanation_has_no_experiments_and_a_running_one_can_be_cancelled(pinhole, trace, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite", waiting=3) as client:
        client.id = client.ask(example="test-00011", question=trace.question)[2]["id"]
        status, answer = submit(client, kind="hide", positions=[40])
        assert (status, "it has no result" in answer["detail"]) == (409, True)
        gate.opened.set()
        client.wait(client.id, "done")
        gate.opened.clear()
        client.service.models._loaded = None
        running, waiting = (submit(client, kind="hide", positions=[trace.inputs[0]])[1]["id"] for _ in range(2))
        path = f"/api/explanations/{client.id}/experiments"
        wait_until(lambda: client.get(f"{path}/{running}")[1]["status"] == "running", "its turn")
        for one in (waiting, running):
            client.send("POST", f"{path}/{one}/cancel")
        gate.opened.set()
        wait_until(lambda: client.get(f"{path}/{running}")[1]["status"] == "cancelled", "the end")
        assert client.get(f"{path}/{waiting}")[1]["status"] == "cancelled"
        client.service.limits = replace(client.service.limits, patience=0.0)
        left = submit(client, kind="hide", positions=[trace.inputs[0]])[1]["id"]
        wait_until(lambda: client.get(f"{path}")[1][-1]["status"] in ("cancelled", "done"), f"the end of {left}")


def test_an_explanation_that_is_deleted_while_its_experiment_loads_a_model_is_no_error(
    pinhole, trace, tmp_path, capsys
):
    gate = Gate(pinhole)
    gate.opened.set()
    with serving(gate, tmp_path / "history.sqlite") as client:
        client.id = client.ask(example="test-00011", question=trace.question)[2]["id"]
        client.wait(client.id, "done")
        gate.opened.clear()
        client.service.models._loaded = None
        made = submit(client, kind="hide", positions=[trace.inputs[0]])[1]["id"]
        job = client.service.queue.find(made)
        wait_until(lambda: job.state.status == "running", "its turn")
        assert client.send("DELETE", f"/api/explanations/{client.id}")[0] == 204
        gate.opened.set()
        wait_until(lambda: job.state.status != "running", "the end")
    assert (job.state.status, job.state.error) == ("cancelled", "the explanation was deleted")
    assert "Traceback" not in capsys.readouterr().err


def test_a_history_of_the_version_before_is_opened_and_extended(pinhole, tmp_path):
    place = tmp_path / "history.sqlite"
    with serving(lambda name: pinhole, place, new_tokens=8) as client:
        id = client.ask(example="test-00011")[2]["id"]
        client.wait(id, "done")
    with closing(sqlite3.connect(place)) as db, db:
        db.executescript("DROP TABLE experiment; PRAGMA user_version = 3;")
    with serving(lambda name: pinhole, place) as client:
        assert client.get(f"/api/explanations/{id}")[1]["experiments"] == 0
        client.id = id
        assert submit(client, kind="hide", positions=[])[0] == 422
    with closing(sqlite3.connect(place)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (HISTORY_VERSION,)
