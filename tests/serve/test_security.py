"""Who gets past the door, and how a server is started."""

from __future__ import annotations

import socket

import pytest

from support.serving import serving
from vtrace.cli import serve as command
from vtrace.serve.history import History
from vtrace.serve.security import is_loopback

TOKEN = "a-token-of-thirty-two-characters"


@pytest.fixture(scope="module")
def open_door(pinhole, tmp_path_factory):
    with serving(lambda name: pinhole, tmp_path_factory.mktemp("serve") / "history.sqlite") as client:
        yield client


@pytest.fixture(scope="module")
def locked_door(pinhole, tmp_path_factory):
    with serving(lambda name: pinhole, tmp_path_factory.mktemp("serve") / "history.sqlite", token=TOKEN) as client:
        yield client


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "", "[", "127.0.0.1.evil.example"])
def test_a_name_that_points_here_from_elsewhere_is_not_answered(open_door, host):
    assert open_door.send("GET", "/api/server", headers={"host": host})[0] in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1", "[::1]:80"])
def test_loopback_names_are(open_door, host):
    assert open_door.send("GET", "/api/server", headers={"host": host})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
def test_other_sites_cannot_ask_in_a_visitors_name(open_door, headers):
    assert open_door.ask(example="test-00011", headers=headers | {"accept": "*/*"})[0] == 403


def test_the_own_page_can(open_door):
    own = {"origin": f"http://127.0.0.1:{open_door.port}", "sec-fetch-site": "same-origin"}
    assert open_door.ask(example="test-00011", headers=own)[0] == 202


@pytest.mark.parametrize("path", ["/", "/api/server", "/api/explanations", "/static/app.js", "/openapi.json"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer no"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": f"vtrace-token={TOKEN}; ,;="}],
    ids=["none", "wrong", "basic", "cookie"],
)
def test_without_the_token_nothing_is_answered(locked_door, path, headers):
    status, found, _ = locked_door.send("GET", path, headers=headers)
    assert status == 401
    assert found["www-authenticate"] == "Bearer"


def test_with_the_token_everything_is(locked_door):
    assert locked_door.send("GET", "/api/server", headers={"authorization": f"Bearer {TOKEN}"})[0] == 200
    other = {"authorization": f"bearer {TOKEN}", "host": "gpu-machine:8765"}
    assert locked_door.send("GET", "/api/server", headers=other)[0] == 200


def test_the_address_with_the_token_gives_a_cookie_and_hides_the_token(locked_door):
    assert locked_door.send("GET", "/?token=wrong")[0] == 401
    assert locked_door.send("GET", f"/api/server?token={TOKEN}")[0] == 401
    status, headers, _ = locked_door.send("GET", f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert locked_door.send("GET", "/", headers={"cookie": cookie.split(";")[0]})[0] == 200


def test_what_counts_as_loopback():
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.1", "example.org", "", "localhost.evil.example"]))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--token", "short"], "at least 16"),
        (["--token", "has a blank and more"], "at least 16"),
        (["--runs", "/nowhere"], "no folder /nowhere"),
        (["--methods", "magic"], "unknown method 'magic'"),
        (["--host", "256.1.1.1"], "cannot listen on 256.1.1.1"),
        (["--model", "pinhole", "--model", "/nowhere"], "cannot find the model '/nowhere'"),
    ],
)
def test_a_bad_start_is_one_line(run, tmp_path, arguments, reason):
    code, _, err = run("serve", "--store", tmp_path / "history.sqlite", *arguments)
    assert code in (2, 3)
    assert reason in err
    assert err.count("\n") == 1


def test_a_model_that_takes_no_pictures_is_not_served(run, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    code, _, err = run("serve", "--store", tmp_path / "history.sqlite", "--model", tmp_path / "model")
    assert code == 2
    assert "takes no pictures, and the web application asks about pictures; use: vtrace explain" in err


def test_a_taken_port_and_a_taken_history_are_one_line(run, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("serve", "--store", tmp_path / "a.sqlite", "--port", taken.getsockname()[1])
    assert code == 2
    assert "choose another --port" in err
    store = History(tmp_path / "b.sqlite")
    code, _, err = run("serve", "--store", tmp_path / "b.sqlite", "--port", 0)
    store.close()
    assert code == 2
    assert "another process is writing to" in err
    (tmp_path / "c.sqlite").write_text("not a database, but a text that is long enough to be read as one" * 20)
    code, _, err = run("serve", "--store", tmp_path / "c.sqlite", "--port", 0)
    assert code == 2
    assert "not a usable history" in err


def test_a_missing_extra_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, _, err = run("serve")
    assert code == 2
    assert "pip install 'vtrace-attribution[serve]'" in err
