"""The HTTP interface on a real server: what it does, and what it refuses."""

from __future__ import annotations

import json
import struct
import threading
import weakref
import zlib
from dataclasses import replace

import numpy as np
import pytest

import vtrace
from support.serving import QUESTION, Client, Gate, picture, serving
from support.waiting import PATIENCE, wait_until
from vtrace.report.documents import from_document
from vtrace.serve.job import ExplanationJob, JobCancelled, JobRequest
from vtrace.serve.model_cache import ModelCache
from vtrace.serve.security import Limits
from vtrace.serve.worker import explain_job


@pytest.fixture(scope="module")
def client(pinhole, tmp_path_factory):
    place = tmp_path_factory.mktemp("serve")
    with serving(lambda name: pinhole, place / "history.sqlite", upload_bytes=300_000, pixels=400_000) as client:
        yield client


def test_a_question_is_answered_while_it_is_watched(client, pinhole):
    status, headers, made = client.ask((picture(),))
    assert status == 202
    assert headers["location"] == f"/api/explanations/{made['id']}"
    events = client.events(made["id"])
    facts = client.get(headers["location"])[1]
    assert events[-1]["status"] == facts["status"] == "done"
    assert "".join(event["text"] for event in events).strip() == facts["response"]
    assert {"answering", "tracing with vtrace"} <= {event["stage"] for event in events}
    layers = [(event["done"], event["total"]) for event in events if event["total"]]
    assert layers[-1][0] == layers[-1][1] == pinhole.model.config.text_config.num_hidden_layers
    assert facts["answer"] in facts["response"]


def test_the_result_is_the_one_that_python_gives(client, pinhole):
    made = client.ask((picture(),), methods=["vtrace", "ifr"], target="answer")[2]
    client.wait(made["id"], "done")
    trace = vtrace.trace(pinhole, vtrace.example("test-0").images[0], QUESTION)
    expected = vtrace.compare(pinhole, trace, ["vtrace", "ifr"], target="answer")
    for method in ("vtrace", "ifr"):
        body = client.send("GET", f"/api/explanations/{made['id']}/result?method={method}")[2]
        found = from_document(json.loads(body))
        np.testing.assert_allclose(found.scores, expected[method].scores, rtol=1e-4, atol=1e-6)
        assert found.target.name == "answer"
    assert client.send("GET", f"/api/explanations/{made['id']}/result?method=loo")[0] == 404


def test_events_go_on_where_a_client_lost_them(client):
    made = client.ask(example="test-00011")[2]
    whole = client.wait(made["id"], "done")["response"]
    (last,) = client.events(made["id"], {"last-event-id": "5"})
    assert last["text"] == whole[5:]
    assert last["status"] == "done"


def test_an_example_keeps_its_evidence_only_with_its_own_question(client):
    own = vtrace.example()
    for question, known in ((own.question, True), (QUESTION, False)):
        made = client.ask(example="test-00011", question=question)[2]
        client.wait(made["id"], "done")
        body = client.send("GET", f"/api/explanations/{made['id']}/result")[2]
        assert bool(from_document(json.loads(body)).trace.evidence_boxes) is known


def test_the_page_is_the_viewer_under_its_own_policy(client):
    made = client.ask((picture(),), question="Is <script>alert(1)</script> shown?")[2]
    client.wait(made["id"], "done")
    status, headers, body = client.send("GET", f"/api/explanations/{made['id']}/page")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "script-src 'sha256-" in policy
    assert b"<script>alert(1)" not in body
    saved = client.send("GET", f"/api/explanations/{made['id']}/page?download=true")
    assert saved[1]["content-disposition"].startswith("attachment")
    assert b"<script>alert(1)" not in saved[2]
    assert (b"connect-src 'self'" in body, b"connect-src" in saved[2]) == (True, False), "a file asks no server"


def test_the_start_page_answers_to_head_like_to_get_but_without_a_body(client):
    status, headers, body = client.send("GET", "/")
    assert status == 200
    assert b"<title>" in body
    empty = client.send("HEAD", "/")
    assert (empty[0], empty[2]) == (200, b"")
    assert empty[1]["content-length"] == str(len(body))
    assert empty[1]["content-security-policy"] == headers["content-security-policy"]


def test_an_explanation_can_be_forgotten(client):
    id = client.ask(example="test-00011")[2]["id"]
    client.wait(id, "done")
    assert client.send("DELETE", f"/api/explanations/{id}")[0] == 204
    assert client.get(f"/api/explanations/{id}")[0] == 404
    assert client.send("GET", f"/api/explanations/{id}/page")[0] == 404


def test_history_is_newest_first_and_survives_a_restart(pinhole, tmp_path):
    with serving(lambda name: pinhole, tmp_path / "history.sqlite") as client:
        ids = [client.ask(example="test-00011")[2]["id"] for _ in range(3)]
        client.wait(ids[-1], "done")
        page = client.send("GET", f"/api/explanations/{ids[0]}/page")[2]
    with serving(lambda name: pinhole, tmp_path / "history.sqlite") as client:
        found = client.get("/api/explanations?count=2")[1]
        assert [one["id"] for one in found] == ids[:0:-1]
        assert [one["id"] for one in client.get(f"/api/explanations?before={found[-1]['number']}")[1]] == ids[:1]
        assert client.send("GET", f"/api/explanations/{ids[0]}/page")[2] == page
        assert client.send("GET", f"/api/explanations/{ids[0]}/picture")[2].startswith(b"\xff\xd8")


def bomb() -> bytes:
    """A few hundred bytes that claim to be 50,000 x 50,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 50_000, 50_000, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(200_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello", "is not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "is not a picture"),
        (b"", "is not a picture"),
        (picture("TIFF"), "is not a picture"),
        (picture("BMP"), "is not a picture"),
        (picture()[:2000], "cannot read"),
        (picture()[:20], "picture"),
        (bomb(), "picture"),
        (picture(size=(700, 700)), "the limit is 400000"),
        (picture(size=(1000, 2)), "too thin"),
    ],
    ids=["text", "svg", "empty", "tiff", "bmp", "cut", "head", "bomb", "large", "thin"],
)
def test_what_is_not_a_usable_picture_is_refused_in_one_line(client, data, reason):
    status, _, answer = client.ask((data,))
    assert status == 422
    assert reason in answer["detail"]
    assert "\n" not in answer["detail"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"example": "../../etc/passwd"}, "no such example"),
        ({"example": "test-00011", "model": "/etc"}, "no such model"),
        ({"example": "test-00011", "methods": ["vtrace", "<b>"]}, "no such method"),
        ({"example": "test-00011", "methods": ["vtrace"] * 7}, "the limit is 6"),
        ({"example": "test-00011", "target": "/(a+)+$/"}, "target"),
        ({"example": "test-00011", "question": "?" * 4001}, "the limit is 4000"),
        ({"example": "test-00011", "question": " \n"}, "empty"),
        ({"question": "Where?"}, "no picture"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_nothing_that_a_client_names_is_believed(client, fields, reason):
    status, _, answer = client.ask(**fields)
    assert status == 422
    assert reason in answer["detail"]
    assert "passwd" not in answer["detail"]
    assert "<b>" not in answer["detail"]


def test_pictures_are_counted_and_exclude_an_example(client):
    few = picture(size=(32, 32))
    assert "the limit is 8" in client.ask((few,) * 9)[2]["detail"]
    assert "mutually exclusive" in client.ask((few,), example="test-00011")[2]["detail"]
    made = client.ask((picture("JPEG"), picture("WEBP")))[2]
    assert client.wait(made["id"])["status"] == "done"


def test_a_question_the_model_cannot_take_fails_with_its_reason(client):
    made = client.ask(example="test-00011", question="What is <|image_pad|>?")[2]
    facts = client.wait(made["id"])
    assert facts["status"] == "failed"
    assert "placeholder of a picture" in facts["error"]


def test_large_requests_are_refused_with_and_without_a_length(client):
    assert client.send("POST", "/api/explanations", b"x" * 300_001)[0] == 413
    kind = {"content-type": "multipart/form-data; boundary=x"}
    head = b'--x\r\ncontent-disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
    chunks = iter([head, *[b"y" * 1000] * 400])
    assert client.send("POST", "/api/explanations", chunks, kind)[0] == 413


def test_every_answer_has_a_policy_and_is_what_it_says(client):
    for path in ("/", "/static/app.js", "/api/server", "/nothing", "/openapi.json"):
        headers = client.send("GET", path)[1]
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client.send("GET", "/static/../application.py")[0] == 404
    assert client.send("GET", "/static/%2e%2e/application.py")[0] == 404


def test_a_full_queue_says_when_to_come_back_and_everyone_sees_their_place(pinhole, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite", waiting=2) as client:
        first = client.ask(example="test-00011")[2]["id"]
        client.wait(first, "running")
        waiting = [client.ask(example="test-00011")[2] for _ in range(2)]
        assert [one["place"] for one in waiting] == [1, 2]
        status, headers, answer = client.ask(example="test-00011")
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert "full" in answer["detail"]
        assert client.send("POST", f"/api/explanations/{waiting[0]['id']}/cancel")[0] == 200
        assert client.get(f"/api/explanations/{waiting[0]['id']}")[1]["status"] == "cancelled"
        assert client.get(f"/api/explanations/{waiting[1]['id']}")[1]["place"] == 1
        assert client.ask(example="test-00011")[0] == 202
        assert client.send("DELETE", f"/api/explanations/{first}")[0] == 409
        gate.opened.set()
        assert client.wait(waiting[1]["id"])["status"] == "done"
        assert client.get(f"/api/explanations/{first}")[1]["status"] == "done"


def test_a_running_request_can_be_cancelled(pinhole, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite") as client:
        id = client.ask(example="test-00011")[2]["id"]
        client.wait(id, "running")
        client.send("POST", f"/api/explanations/{id}/cancel")
        gate.opened.set()
        assert client.wait(id)["status"] == "cancelled"
        assert client.events(id)[-1]["status"] == "cancelled"
        assert client.wait(client.ask(example="test-00011")[2]["id"])["status"] == "done"


def test_a_client_that_leaves_gives_up_its_place(pinhole, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite") as client:
        running, waiting = (client.ask(example="test-00011")[2]["id"] for _ in range(2))
        staying, kept = client.service.queue.find(running), client.service.queue.find(waiting)
        with leaving(client, running), leaving(client, waiting):
            looks = counted(kept, "abandoned")
            client.service.limits = replace(client.service.limits, patience=0.0)
            wait_until(lambda: len(looks) > 2, "a look for abandoned jobs")
            assert not any(looks), "it is watched, and so not given up"
            assert len(client.service.queue.jobs()) == 2
        wait_until(lambda: kept.state.error and staying.stopped, "the end of abandoned jobs")
        assert kept.state.status == "cancelled"
        gate.opened.set()
        facts = client.wait(running)
        assert (facts["status"], facts["error"]) == ("cancelled", "the client left")
        assert staying.state.status == "cancelled"


def counted(thing: object, name: str) -> list:
    """What a method returns from now on."""
    method, seen = getattr(thing, name), []

    def call(*arguments):
        seen.append(method(*arguments))
        return seen[-1]

    setattr(thing, name, call)
    return seen


class leaving:
    """Follows a job until the block ends, then closes the connection without a word."""

    def __init__(self, client: Client, id: str):
        import http.client

        self.connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        self.connection.request("GET", f"/api/explanations/{id}/events")

    def __enter__(self):
        self.answer = self.connection.getresponse()
        self.answer.readline()

    def __exit__(self, *error):
        self.answer.close()
        self.connection.close()


def test_stopping_finishes_what_runs_and_records_what_waits(pinhole, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite") as client:
        running, waiting = (client.ask(example="test-00011")[2]["id"] for _ in range(2))
        client.wait(running, "running")
        stopping = threading.Thread(target=client.service.stop)
        stopping.start()
        client.wait(waiting, "interrupted")  # while the model of the other is still loading
        gate.opened.set()
        stopping.join(PATIENCE)
    with serving(gate, tmp_path / "history.sqlite", grace=0.2) as client:
        assert client.get(f"/api/explanations/{running}")[1]["status"] == "done"
        assert client.get(f"/api/explanations/{waiting}")[1]["status"] == "interrupted"
        gate.opened.clear()
        stuck = client.ask(example="test-00011")[2]["id"]
        client.wait(stuck, "running")
    gate.opened.set()
    with serving(gate, tmp_path / "history.sqlite") as client:
        facts = client.get(f"/api/explanations/{stuck}")[1]
        assert (facts["status"], facts["error"]) == ("interrupted", "the server was stopped")


@pytest.mark.parametrize("stage", ["answering", "tracing with vtrace", "tracing with loo"])
def test_work_ends_between_tokens_layers_and_steps_and_leaves_the_model_as_it_was(pinhole, attribution, stage):
    method = stage.split()[-1] if "with" in stage else "vtrace"
    job = ExplanationJob(JobRequest("x", "pinhole", (method,), "response", vtrace.example()))
    seen = []

    def watch():
        seen.append(job.state)
        if job.state.stage == stage and (job.state.total or stage == "answering"):
            job.stop("enough")

    with job.watched(watch), pytest.raises(JobCancelled, match="enough"):
        explain_job(pinhole, job, new_tokens=200)
    assert seen[-1].stage == stage
    again = vtrace.attribute(pinhole, attribution.trace)
    np.testing.assert_array_equal(again.scores, attribution.scores)


def test_one_model_is_in_memory_at_a_time():
    alive: list[weakref.ref] = []

    class Loaded:
        def __init__(self, name):
            assert not any(other() for other in alive), "the one before is gone"
            alive.append(weakref.ref(self))

    models = ModelCache(["a", "b", "a"], Loaded)
    assert models.names == ("a", "b")
    assert models.get("a") is models.get("a")
    models.get("b")
    models.get("a")
    assert len(alive) == 3


def test_limits_are_told(client):
    limits = client.get("/api/server")[1]["limits"]
    assert limits.keys() == vars(Limits()).keys()
