"""Responses of a server: its tokens are ours, its faults are one line, and nothing that has arrived is lost."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from support import fake_endpoint as fake
from support.fake_endpoint import SERVED, TEXT, completion, fake_endpoint, good, saying
from support.transformers_server import free_port
from support.waiting import PATIENCE, wait_until
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.freeze import freeze_responses
from vtrace.faithfulness.plan import ResponsePlan
from vtrace.faithfulness.traces import read_traces, summarise_traces
from vtrace.lvlm.checkpoint_source import EMBEDDED
from vtrace.lvlm.load import load_without_weights
from vtrace.tracing.endpoint import ChatClient, Endpoint, EndpointError

SHAPES = find_benchmark("shapes-dev")
KEY = "sk-a-very-secret-key"


@pytest.fixture(scope="module")
def reader():
    """What is needed to read responses: no weights."""
    return load_without_weights("pinhole")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("VTRACE_API_KEY", KEY)


def ask(reader, server, folder, count=1, **patience):
    """Freeze the responses to the first examples, without long waits."""
    options = {"concurrency": 1, "timeout": PATIENCE, "attempts": 3, "pause": 0.01, **patience}
    endpoint = Endpoint(server if isinstance(server, str) else server.url, SERVED, **options)
    return freeze_responses(reader, SHAPES, ResponsePlan(max_new_tokens=64), folder, range(count), endpoint=endpoint)


def rows(folder):
    with sqlite3.connect(folder / "traces.sqlite") as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("SELECT * FROM response ORDER BY key")]


def test_a_request_has_the_picture_without_loss_the_system_prompt_and_no_temperature(reader, tmp_path):
    with fake_endpoint(good) as server:
        ask(reader, server, tmp_path)
    (request,) = server.requests
    assert (request["model"], request["temperature"], request["max_tokens"]) == (SERVED, 0, 64)
    system, user = request["messages"]
    assert system["role"] == "system"
    assert system["content"][0]["text"].startswith("Look at the image carefully")
    picture, question = user["content"]
    data = picture["image_url"]["url"].removeprefix("data:image/png;base64,")
    example = SHAPES.example(0)
    assert Image.open(io.BytesIO(base64.b64decode(data))).tobytes() == example.images[0].convert("RGB").tobytes()
    assert question == {"type": "text", "text": example.question}


def test_where_one_sentence_is_asked_for_the_rest_of_what_a_server_says_is_left_out(reader, tmp_path):
    of_one = dataclasses.replace(SHAPES, example=lambda n: dataclasses.replace(SHAPES.example(n), one_sentence=True))
    with fake_endpoint(good) as server:
        freeze_responses(reader, of_one, ResponsePlan(), tmp_path, range(1), endpoint=Endpoint(server.url, SERVED))
    (row,) = rows(tmp_path)
    assert (row["text"].strip(), row["finish"]) == (TEXT.split("\n")[0], "stop")  # one token is ".\n"


def test_the_servers_own_tokens_are_used_where_it_returns_them(reader, tmp_path):
    ids = [*reader.processor.tokenizer(TEXT, add_special_tokens=False)["input_ids"]]
    odd = [ids[0], *ids]  # tokens that no tokenizer would make of the text
    with fake_endpoint(saying(completion(token_ids=odd))) as server:
        ask(reader, server, tmp_path)
    (row,) = rows(tmp_path)
    assert json.loads(row["reply"]) == [*odd, reader.processor.tokenizer.eos_token_id]
    assert (row["source"], row["finish"], row["round_trips"]) == ("endpoint", "stop", None)


def test_without_them_the_text_is_tokenised_and_said_to_round_trip_or_not(reader, tmp_path):
    odd = completion("It is a cafe\u0301.\nFinal answer: red")
    many = {**completion(), "usage": {"completion_tokens": 999}}  # other tokens than ours, of the same text
    with fake_endpoint(good, saying(odd), saying(many)) as server:
        path = ask(reader, server, tmp_path, 3)
    assert [row["round_trips"] for row in rows(tmp_path)] == [1, 0, 0]
    assert rows(tmp_path)[0]["text"] == TEXT
    assert list(summarise_traces(path).describe()) == ["2 of 3 responses do not round-trip; their tokens are a guess"]


def test_a_server_that_refuses_to_be_asked_for_tokens_is_asked_without(reader, tmp_path):
    with fake_endpoint(fake.without_token_ids) as server:
        ask(reader, server, tmp_path, 2)
    assert [row["text"] for row in rows(tmp_path)] == [TEXT, TEXT]
    assert ["return_token_ids" in request for request in server.requests] == [True, False, False]


def test_a_response_that_the_server_cut_at_the_budget_is_recorded_as_cut(reader, tmp_path):
    with fake_endpoint(saying(completion("It is", finish="length"))) as server:
        path = ask(reader, server, tmp_path)
    (row,) = rows(tmp_path)
    assert row["finish"] == "length"
    assert json.loads(row["reply"])[-1] != reader.processor.tokenizer.eos_token_id
    assert "1 of 1 responses were cut off at the token budget" in summarise_traces(path).describe()


@pytest.mark.parametrize(
    "fault",
    [
        saying({"error": {"message": "busy"}}, 429, Retry_After="0"),
        saying({"error": "overloaded"}, 500),
        fake.reset,
        fake.cut_body,
        fake.cut_json,
    ],
    ids=["busy", "internal error", "reset", "cut body", "cut JSON"],
)
def test_a_passing_fault_is_tried_again(reader, tmp_path, fault):
    with fake_endpoint(fault, good) as server:
        ask(reader, server, tmp_path)
    assert [row["text"] for row in rows(tmp_path)] == [TEXT]
    assert len(server.requests) == 2


def test_a_server_that_asks_to_wait_is_given_the_time(reader, tmp_path, monkeypatch):
    waits = []
    with fake_endpoint(saying({}, 429, Retry_After="7"), good) as server:
        client = ChatClient(Endpoint(server.url, SERVED, pause=0.01))
        monkeypatch.setattr(client._closed, "wait", lambda seconds: waits.append(seconds))
        client.complete([], 1)
    assert waits == [0, 7]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (fake.web_page, "answers with a web page, not with JSON; give the base of the API"),
        (saying(completion(model="another")), "answers with the model 'another', not 'served-pinhole'"),
        (saying({"error": {"message": f"wrong key {KEY}"}}, 401), "refused the key; set VTRACE_API_KEY"),
        (saying({"error": {"message": "no such model"}}, 404), "answered with status 404: no such model"),
        (saying({}, 302, Location="http://elsewhere"), "redirects to another address"),
    ],
    ids=["HTML", "another model", "wrong key", "unknown model", "redirect"],
)
def test_a_server_that_cannot_be_used_ends_the_work_and_keeps_what_has_arrived(reader, tmp_path, fault, message):
    with fake_endpoint(good, fault) as server, pytest.raises(EndpointError, match=message) as caught:
        ask(reader, server, tmp_path, 3)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [row["key"] for row in rows(tmp_path)] == ["dev-00000"]
    with fake_endpoint(good) as server:
        ask(reader, server, tmp_path, 3)
    assert len(server.requests) == 2  # what had arrived is not asked for again
    assert len(rows(tmp_path)) == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (saying({"error": {"message": f"context too long for {KEY}"}}, 400), "answered with status 400: context too"),
        (fake.silent, "gave no answer within 0.2 seconds; tried 2 times"),
        (fake.dripping, "gave no answer within 0.2 seconds; tried 2 times"),
        (fake.cut_body, "cut its answer off; tried 2 times"),
        (saying(completion("")), "the server sent an empty response"),
        (saying(completion(finish="content_filter")), "ended the response with 'content_filter'"),
        (saying(completion(finish=["stop"])), "ended the response with \"['stop']\" instead of"),
        (saying({"model": SERVED, "choices": []}), "something else than a chat completion"),
        (saying(completion(token_ids=[10**6])), "has a token 1000000, but pinhole has only"),
        (saying({"error": "x"}, 503), "answered with status 503: x; tried 2 times"),
    ],
    ids=["refused", "slow", "drip", "cut", "empty", "filtered", "odd end", "no choice", "foreign token", "overloaded"],
)
def test_an_example_that_the_server_cannot_answer_is_left_out_with_the_reason(reader, tmp_path, fault, reason):
    with fake_endpoint(fault) as server:
        ask(reader, server, tmp_path, attempts=2, timeout=0.2 if fault in (fake.silent, fake.dripping) else PATIENCE)
    (found,) = read_traces(tmp_path).left_out.values()
    assert reason in found
    assert KEY not in found


def test_a_server_that_only_fails_is_given_up(reader, tmp_path):
    with fake_endpoint(saying({"error": "x"}, 500)) as server, pytest.raises(EndpointError, match="3 examples failed"):
        ask(reader, server, tmp_path, 20, attempts=1)
    assert len(server.requests) < 10


def test_a_server_that_is_down_is_named_in_one_line(reader, tmp_path):
    with pytest.raises(EndpointError, match=r"the server at http://127\.0\.0\.1:\d+/v1 cannot be reached: .*tried 2"):
        ask(reader, f"http://127.0.0.1:{free_port()}/v1", tmp_path, attempts=2)


def test_the_key_is_sent_and_kept_nowhere(reader, tmp_path, capfd):
    with fake_endpoint(good) as server:
        ask(reader, server, tmp_path)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(Endpoint(server.url, SERVED))
    assert not [path for path in tmp_path.iterdir() if KEY.encode() in path.read_bytes()]
    assert KEY not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("url", "model", "message"),
    [
        ("localhost:8000", SERVED, "is no web address"),
        (f"http://user:{KEY}@localhost/v1", SERVED, "must not contain a key"),
        (f"http://localhost/v1?key={KEY}", SERVED, "must not contain a key"),
        ("http://localhost/v1", "", "needs --served-model"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(url, model, message):
    with pytest.raises(InputError, match=message) as caught:
        Endpoint(url, model).check()
    assert KEY not in str(caught.value)


def test_a_key_that_no_header_can_have_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("VTRACE_API_KEY", f"{KEY}\nX-Other: 1")
    with pytest.raises(InputError, match="VTRACE_API_KEY has characters that a key cannot have") as caught:
        Endpoint("http://localhost/v1", SERVED).check()
    assert KEY not in str(caught.value)


def test_several_requests_are_under_way_but_no_more_than_allowed(reader, tmp_path):
    import threading

    lock, now, most = threading.Lock(), [0], [0]
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def together(request):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meeting.wait()
        with lock:
            now[0] -= 1
        good(request)

    with fake_endpoint(together) as server:
        ask(reader, server, tmp_path, 6, concurrency=3)
    assert most == [3]
    assert len(rows(tmp_path)) == 6


def test_responses_of_a_server_belong_to_the_model_of_that_name(pinhole, reader, tmp_path):
    with fake_endpoint(good) as server:
        ask(reader, server, tmp_path)
    found = read_traces(tmp_path)
    assert (found.settings["revision"], found.settings["served_model"]) == ("", SERVED)
    found.check(pinhole, SHAPES, found.settings["system"])
    with pytest.raises(InputError, match="belong to the model 'pinhole', not 'other'"):
        found.check(dataclasses.replace(pinhole, name="other"), SHAPES, found.settings["system"])


@pytest.fixture(scope="module")
def transformers_serve(tmp_path_factory):
    """A really running `transformers serve` with the embedded model."""
    pytest.importorskip("openai", reason="transformers serve needs the extra 'serving' of transformers")
    port = free_port()
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "support.transformers_server", "pinhole", str(port)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def listening():
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listening)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_transformers_serve_gives_the_tokens_of_the_model_itself(run, reader, transformers_serve, tmp_path):
    common = ["--benchmark", "shapes-dev", "--limit", "3"]
    served = ["--endpoint", transformers_serve, "--served-model", str(EMBEDDED["pinhole"]), "--concurrency", "2"]
    code, out, err = run("trace", *common, *served, "--out", tmp_path / "served", "--json")
    assert code == 0, err
    assert json.loads(out)["responses"] == 3
    assert run("trace", *common, "--out", tmp_path / "own")[0] == 0
    ours, theirs = rows(tmp_path / "own"), rows(tmp_path / "served")
    for name in ("key", "asked", "reply", "text", "finish"):
        assert [row[name] for row in theirs] == [row[name] for row in ours]
    assert [(row["source"], row["round_trips"]) for row in theirs] == [("endpoint", 1)] * 3
    code, _, err = run(
        "evaluate", "--traces", tmp_path / "served", "--methods", "random", "--steps", "2", "--out", tmp_path / "run"
    )
    assert code == 0, err
