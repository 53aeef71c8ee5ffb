"""What the server withstands: damaged runs, foreign cookies, slow connections, and a network that is not there."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from support.serving import served, serving
from support.waiting import PATIENCE, wait_until
from vtrace.serve import security
from vtrace.serve.connections import TimedProtocol
from vtrace.serve.security import SECURITY_HEADERS

TOKEN = "a-token-of-thirty-two-characters"


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


def damage(path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


@pytest.fixture(scope="module")
def runs(run_folder, tmp_path_factory):
    """One good run among damaged ones."""
    place = tmp_path_factory.mktemp("runs")
    damages = {
        "good": None,
        "no settings": ("DELETE FROM meta WHERE key = 'settings'",),
        "not JSON": ("UPDATE meta SET value = '{' WHERE key = 'settings'",),
        "deep": ("UPDATE meta SET value = ? WHERE key = 'settings'", "[" * 100_000),
        "a list": ("UPDATE meta SET value = '[1]' WHERE key = 'settings'",),
        "no model": ("UPDATE meta SET value = '{\"benchmark\": 5}' WHERE key = 'settings'",),
        "odd model": ("UPDATE meta SET value = '{\"model\": 5, \"benchmark\": []}' WHERE key = 'settings'",),
        "no items": ("DROP TABLE item",),
        "odd items": ("UPDATE item SET correct = 'perhaps', number = 'first', question = x'ff'",),
        "odd reply": ("UPDATE item SET reply = '[[['",),
    }
    damages["endless"] = (f"CREATE VIEW endless AS {ENDLESS}",)
    os.mkfifo(place / "questions.csv")
    for name, benchmark in (("text only", "facts"), ("questions in a pipe", str(place / "questions.csv"))):
        damages[name] = ("UPDATE meta SET value = json_set(value, '$.benchmark', ?) WHERE key = 'settings'", benchmark)
    for name, change in damages.items():
        shutil.copytree(run_folder, place / name)
        if change:
            damage(place / name / "run.sqlite", *change)
    (place / "a\udcffb").mkdir()
    shutil.copy(run_folder / "run.sqlite", place / "a\udcffb")
    (place / "pipe").mkdir()
    os.mkfifo(place / "pipe" / "run.sqlite")
    (place / "garbage").mkdir()
    (place / "garbage" / "run.sqlite").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    return place


@pytest.fixture(scope="module")
def client(pinhole, runs, tmp_path_factory):
    with serving(lambda name: pinhole, tmp_path_factory.mktemp("serve") / "history.sqlite", runs) as client:
        yield client


def test_a_damaged_run_is_listed_with_its_reason_and_hides_no_other(client):
    status, headers, body = client.send("GET", "/api/runs")
    assert status == 200
    found = {one["name"]: one for one in json.loads(body)}
    assert (found["good"]["error"], found["good"]["items"]) == (None, 3)
    assert found["a\\udcffb"]["items"] == 3
    for name in (
        "no settings",
        "not JSON",
        "deep",
        "a list",
        "no model",
        "odd model",
        "no items",
        "odd items",
        "endless",
        "pipe",
        "garbage",
    ):
        assert found[name]["error"], name
        assert "\n" not in found[name]["error"]
    assert SECURITY_HEADERS.keys() <= headers.keys()


def test_no_page_of_a_damaged_run_breaks_the_server(client, runs):
    with closing(sqlite3.connect(runs / "good" / "run.sqlite")) as db:
        key = db.execute("SELECT key FROM item").fetchone()[0]
    for run in client.get("/api/runs")[1]:
        name = run["name"].replace(" ", "%20").replace("\\", "%5C")
        for path in ("items", f"items/{key}", f"items/{key}/picture"):
            status, headers, body = client.send("GET", f"/api/runs/{name}/{path}")
            assert status in (200, 422), (run, path, body)
            assert SECURITY_HEADERS.keys() <= headers.keys()
        assert client.send("POST", f"/api/runs/{name}/items/{key}/explanations")[0] in (202, 422)


def test_even_the_answer_to_a_bug_and_to_what_is_not_http_has_the_headers(client, monkeypatch):
    def stumble(*_):
        raise TypeError("a bug")

    monkeypatch.setattr(client.service.history, "page", stumble)
    status, headers, body = client.send("GET", "/api/explanations")
    assert (status, json.loads(body)["detail"]) == (500, "an error inside VTrace; see the server's log")
    assert SECURITY_HEADERS.keys() <= headers.keys()
    with socket.create_connection(("127.0.0.1", client.port), PATIENCE) as raw:
        raw.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = raw.makefile("rb").read().decode().lower()
    assert answer.startswith("http/1.1 400")
    assert all(f"{name}: " in answer for name in SECURITY_HEADERS)


@pytest.mark.parametrize(
    "others",
    [
        "a=b",
        "{}=[]",
        'x="unclosed',
        "na me=v",
        "=;=;;",
        "é=ü",
        "a=b; a=c",
        "vtrace-token=another-applications",
        "vtrace-token-0123456789abcdef=another-servers",
        "\x7f\x01=x",
        '{"json": 1}',
    ],
)
def test_cookies_of_other_applications_lock_nobody_out(pinhole, tmp_path, others):
    with serving(lambda name: pinhole, tmp_path / "history.sqlite", token=TOKEN) as client:
        own = client.send("GET", f"/?token={TOKEN}")[1]["set-cookie"].partition(";")[0]
        for cookie in (f"{others}; {own}", f"{own}; {others}"):
            assert client.send("GET", "/api/server", headers={"cookie": cookie.encode().decode("latin-1")})[0] == 200
        assert client.send("GET", "/api/server", headers={"cookie": others.encode().decode("latin-1")})[0] == 401


def test_two_servers_of_one_host_do_not_replace_each_others_cookie(pinhole, tmp_path):
    """A browser keeps one cookie of a name for all ports of a host."""
    names = set()
    for token in (TOKEN, TOKEN[::-1]):
        with serving(lambda name: pinhole, tmp_path / "history.sqlite", token=token) as client:
            names.add(client.send("GET", f"/?token={token}")[1]["set-cookie"].partition("=")[0])
    assert len(names) == 2


def test_what_is_sent_at_once_is_bounded_whatever_it_claims_to_be(pinhole, tmp_path, monkeypatch):
    monkeypatch.setattr(security, "BODIES_BYTES", 1_000_000)
    form = {"content-type": "multipart/form-data; boundary=x"}
    head = f"POST /api/explanations HTTP/1.1\r\nhost: localhost\r\ncontent-type: {form['content-type']}\r\n"
    field = b'--x\r\ncontent-disposition: form-data; name="question"\r\n\r\n'
    path = f"/api/explanations/{'0' * 32}/experiments"  # takes JSON, which is kept in memory as a whole
    with serving(lambda name: pinhole, tmp_path / "history.sqlite", upload_bytes=1_000_000) as client:
        with socket.create_connection(("127.0.0.1", client.port), PATIENCE) as slow:
            slow.sendall(f"{head}content-length: 900001\r\n\r\n".encode() + field + bytes(900_000 - len(field)))
            wait_until(lambda: client.guard.arrived == 900_000, "the arrival of the slow one")
            status, headers, body = client.send("POST", path, bytes(500_000), form)
            assert (status, headers["retry-after"]) == (429, "5")
            assert json.loads(body)["detail"] == "too much is being sent at once; try again in 5 s"
            assert client.send("GET", "/api/server")[0] == 200
        wait_until(lambda: client.guard.arrived == 0, "the end of the slow one")
        assert client.send("POST", path, bytes(500_000), form)[0] == 422


def closed(connection: socket.socket) -> bool:
    """Whether the server has closed this connection; what it sent is read."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_slow_connections_are_closed_while_others_are_served(pinhole, tmp_path, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "header_seconds", 1.0)
    kind = b"content-type: multipart/form-data; boundary=x\r\ncontent-length: 9999"
    head = b"POST /api/explanations HTTP/1.1\r\nhost: localhost\r\n" + kind + b"\r\n\r\n"
    with serving(lambda name: pinhole, tmp_path / "history.sqlite", body_seconds=1.0) as client:
        slow = [socket.create_connection(("127.0.0.1", client.port), PATIENCE) for _ in range(20)]
        for number, connection in enumerate(slow):
            connection.sendall(
                (b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ", head + b"--x")[number % 4]
            )

        def drip() -> bool:
            for connection in slow:
                try:
                    connection.setblocking(True)
                    connection.send(b"a")
                except OSError:
                    continue
            return all(closed(connection) for connection in slow)

        assert client.send("GET", "/api/server")[0] == 200
        wait_until(drip, "the end of slow connections")
        for connection in slow:
            connection.close()
        assert client.send("GET", "/api/server")[0] == 200


def reset(connection: socket.socket) -> bool:
    """Whether the server has given this connection up; nothing is read."""
    poll = select.poll()
    poll.register(connection, 0)  # errors are always reported
    return bool(poll.poll(0))


@pytest.mark.parametrize(("seconds", "unread", "ended"), [(0.5, 10**9, 5), (10.0 * PATIENCE, 50_000_000, 3)])
def test_clients_that_do_not_read_are_given_up(pinhole, tmp_path, monkeypatch, seconds, unread, ended):
    """After a while, or as soon as their responses need too much memory; the slowest goes first."""
    page = "x" * 24_000_000
    monkeypatch.setattr(TimedProtocol, "stall_seconds", seconds)
    monkeypatch.setattr(TimedProtocol, "unread_bytes", unread)
    with serving(lambda name: pinhole, tmp_path / "history.sqlite") as client:
        monkeypatch.setattr(client.service, "page", lambda id, live: page)
        path = f"/api/explanations/{'0' * 32}/page"
        slow = [socket.create_connection(("127.0.0.1", client.port), PATIENCE) for _ in range(5)]
        for connection in slow:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert len(client.send("GET", path)[2]) == len(page)
        wait_until(lambda: sum(map(reset, slow)) >= ended, "the end of connections that nobody reads")
        for connection in slow:
            connection.close()


@pytest.mark.slow
def test_a_run_of_a_benchmark_that_is_not_here_asks_no_other_machine(run_folder, tmp_path):
    """The hub is a socket of ours, which nobody connects to."""
    shutil.copytree(run_folder, tmp_path / "runs" / "first")
    with closing(sqlite3.connect(tmp_path / "runs" / "first" / "run.sqlite")) as db, db:
        settings = json.loads(db.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()[0])
        db.execute(
            "UPDATE meta SET value = ? WHERE key = 'settings'", (json.dumps({**settings, "benchmark": "mmstar"}),)
        )
        key = db.execute("SELECT key FROM item").fetchone()[0]
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.settimeout(0.1)
        done = threading.Event()

        def listen() -> None:
            while not done.is_set():
                try:
                    asked.append(hub.accept())
                except TimeoutError:
                    time.sleep(0.01)

        listener = threading.Thread(target=listen)
        listener.start()
        place = {
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}",
            "HF_HUB_OFFLINE": "0",
            "HF_HOME": str(tmp_path / "hf"),
        }
        with served(tmp_path, "--runs", tmp_path / "runs", **place) as (_, client):
            status, answer = client.get(f"/api/runs/first/items/{key}/picture")
            assert (status, answer["detail"].split(" (")[0]) == (422, "cannot get MMStar")
            assert client.send("POST", f"/api/runs/first/items/{key}/explanations")[0] == 422
        done.set()
        listener.join(PATIENCE)
    assert not asked
