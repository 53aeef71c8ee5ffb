"""A fake chat server that does what it is told, one behaviour per request: real servers do not misbehave on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import PATIENCE

Behaviour = Callable[["FakeRequest"], None]
SERVED = "served-pinhole"
TEXT = "It is red.\nFinal answer: red"


def completion(text: str = TEXT, model: str = SERVED, finish: str | None = "stop", **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": model, "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}]}


class FakeRequest(BaseHTTPRequestHandler):
    """One request."""

    server: FakeEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(json.loads(body))
        self.server.headers.append(dict(self.headers))
        number = len(self.server.requests) - 1
        self.server.behaviours[min(number, len(self.server.behaviours) - 1)](self)

    def answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


class FakeEndpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviours: Sequence[Behaviour]):
        super().__init__(("127.0.0.1", 0), FakeRequest)
        self.behaviours = behaviours
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *args: object) -> None:
        """A client that has gone away is part of the tests."""


@contextmanager
def fake_endpoint(*behaviours: Behaviour) -> Iterator[FakeEndpoint]:
    """A server whose nth request meets the nth behaviour, and all further ones the last."""
    with FakeEndpoint(behaviours) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


def good(request: FakeRequest) -> None:
    request.answer(200, json.dumps(completion()).encode())


def saying(found: dict[str, Any], status: int = 200, **headers: str) -> Behaviour:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.answer(status, json.dumps(found).encode(), shown)


def web_page(request: FakeRequest) -> None:
    request.answer(200, b"<!doctype html><title>Welcome</title>", {"Content-Type": "text/html"})


def silent(request: FakeRequest) -> None:
    request.server.released.wait(PATIENCE)


def dripping(request: FakeRequest) -> None:
    """Never silent for long, and never done."""
    request.answer(200, b"{", length=10**6)
    while not request.server.released.wait(0.05):
        request.wfile.write(b" ")


def cut_body(request: FakeRequest) -> None:
    """Fewer bytes than announced."""
    body = json.dumps(completion()).encode()
    request.answer(200, body[:40], length=len(body))
    request.close_connection = True


def cut_json(request: FakeRequest) -> None:
    request.answer(200, json.dumps(completion()).encode()[:40])


def reset(request: FakeRequest) -> None:
    request.connection.close()


def without_token_ids(request: FakeRequest) -> None:
    """Like `transformers serve`, which refuses fields that it does not know."""
    if "return_token_ids" in request.server.requests[-1]:
        request.answer(422, b'{"detail": "Unexpected fields in the request: {\'return_token_ids\'}"}')
    else:
        good(request)
