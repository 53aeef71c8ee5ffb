"""Chat completions of any OpenAI-compatible server: one request, its retries, and errors in one line.

The standard library serves: requests are few, large and slow, and redirects, which could carry the key to another host,
are not followed.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import InputError, first_line
from ..system.json_reader import parse_json

KEY_VARIABLES = ("VTRACE_API_KEY", "OPENAI_API_KEY")
_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 60.0  # seconds between two attempts
_MOST_BYTES = 64 * 2**20  # of an answer; the rest counts as cut off


class EndpointError(InputError):
    """The server cannot be used for any example."""


class RefusedRequestError(InputError):
    """The server cannot answer this request, but perhaps others."""


class ServerReply(NamedTuple):
    """What the server sent."""

    status: int
    retry_after: str
    body: bytes


class _Failure(NamedTuple):
    """Why an attempt failed, and how long the server asks to wait before the next."""

    reason: str
    wait: float = 0.0
    unreachable: bool = False


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served, and how patiently it is asked.

    Args:
        url: base of the API, such as http://localhost:8000/v1.
        model: the name under which the server knows the model.
        concurrency: requests at a time.
        timeout: seconds that the server may take to answer.
        attempts: how often a request is sent before it is given up.
        pause: seconds before the second attempt; doubled before each further one.
    """

    url: str
    model: str
    concurrency: int = 8
    timeout: float = 600.0
    attempts: int = 5
    pause: float = 1.0

    def check(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--endpoint {parts.scheme or self.url!r} is no web address; give http://HOST:PORT/v1")
        if parts.username or parts.password or parts.query:
            raise InputError(f"--endpoint must not contain a key; set {KEY_VARIABLES[0]} instead")
        if not self.model:
            raise InputError("--endpoint needs --served-model, the name under which the server knows the model")
        read_key()


def read_key() -> str:
    """The key, from the environment only; empty if there is none."""
    for name in KEY_VARIABLES:
        if key := os.environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise InputError(f"{name} has characters that a key cannot have")
            return key
    return ""


class ChatClient:
    """Sends chat requests from several threads. After `close`, requests under way are given up."""

    def __init__(self, endpoint: Endpoint):
        endpoint.check()
        self.endpoint = endpoint
        self._closed = threading.Event()
        self._open: set[socket.socket] = set()
        self._token_ids = True  # until the server refuses a request for them

    def complete(self, messages: list[dict[str, Any]], max_tokens: int) -> Mapping[str, Any]:
        """The completion, as the server returns it, checked to come from the right model."""
        request = {"model": self.endpoint.model, "messages": messages, "temperature": 0, "max_tokens": max_tokens}
        asks_ids = self._token_ids
        try:
            found = self._send_patiently({**request, "return_token_ids": True} if asks_ids else request)
        except RefusedRequestError as error:
            if not asks_ids or "return_token_ids" not in str(error):
                raise
            self._token_ids = False
            found = self._send_patiently(request)
        self._check_model(found)
        return found

    def close(self) -> None:
        self._closed.set()
        for opened in list(self._open):
            _end(opened)

    def _send_patiently(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send a request until it is answered. The waits between attempts double, unless the server names one."""
        body, failure = json.dumps(request).encode(), _Failure("was not asked")
        for attempt in range(self.endpoint.attempts):
            wait = min(self.endpoint.pause * 2 ** (attempt - 1), _LONGEST_WAIT) if attempt else 0.0
            if self._closed.wait(max(wait * random.uniform(0.5, 1.0), failure.wait)):
                break
            found = self._attempt(body)
            if not isinstance(found, _Failure):
                return found
            failure = found
        kind = EndpointError if failure.unreachable else RefusedRequestError
        raise kind(f"{self._place} {failure.reason}; tried {self.endpoint.attempts} times")

    def _attempt(self, body: bytes) -> Mapping[str, Any] | _Failure:
        try:
            reply = self._send(body)
        except TimeoutError:
            return _Failure(f"gave no answer within {self.endpoint.timeout:g} seconds")
        except ssl.SSLError as error:
            raise EndpointError(f"{self._place} cannot be reached safely: {first_line(error)}") from error
        except OSError as error:
            return _Failure(f"cannot be reached: {first_line(error)}", unreachable=True)
        except HTTPException:
            return _Failure("cut its answer off")
        if reply.status in _RETRIED:
            return _Failure(f"answered with status {reply.status}{self._message(reply)}", _seconds(reply))
        return self._read(reply) or _Failure("cut its answer off")

    def _send(self, body: bytes) -> ServerReply:
        parts = urlsplit(self.endpoint.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=self.endpoint.timeout)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key := read_key():
            headers["Authorization"] = f"Bearer {key}"
        connection.connect()
        with closing(connection), self._limited(connection.sock):
            connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
            with connection.getresponse() as answer:
                return ServerReply(answer.status, answer.headers.get("Retry-After", ""), answer.read(_MOST_BYTES))

    @contextmanager
    def _limited(self, opened: socket.socket) -> Iterator[None]:
        """End a connection when its time is over: a socket's own limit starts anew with every byte."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _end(opened)

        timer = threading.Timer(self.endpoint.timeout, give_up)
        timer.daemon = True
        self._open.add(opened)
        timer.start()
        try:
            yield
        except (OSError, HTTPException) as error:
            if not late.is_set():
                raise
            raise TimeoutError from error
        finally:
            timer.cancel()
            self._open.discard(opened)
        if late.is_set():  # a body that is cut short need not be an error
            raise TimeoutError

    def _read(self, reply: ServerReply) -> Mapping[str, Any] | None:
        """The answer; None if it is cut off."""
        text = reply.body.decode("utf-8", "replace").strip()
        if reply.status in (401, 403):
            raise EndpointError(f"{self._place} refused the key; set {KEY_VARIABLES[0]}")
        if text.startswith("<") or (reply.status == 404 and not text.startswith("{")):
            raise EndpointError(
                f"{self._place} answers with a web page, not with JSON; give the base of the API, such as "
                "http://HOST:PORT/v1"
            )
        if 300 <= reply.status < 400:
            raise EndpointError(f"{self._place} redirects to another address; give that one")
        if reply.status >= 400:
            message = f"{self._place} answered with status {reply.status}{self._message(reply)}"
            raise EndpointError(message) if reply.status == 404 else RefusedRequestError(message)
        try:
            found = parse_json(text, "the answer is not JSON")
        except InputError:
            return None
        if not isinstance(found, dict):
            raise EndpointError(f"{self._place} answers with something else than a chat completion")
        return found

    def _message(self, reply: ServerReply) -> str:
        """What the server says about an error, without the key."""
        text = reply.body.decode("utf-8", "replace")
        try:
            found = parse_json(text, "the answer is not JSON")
            found = found.get("error", found.get("detail", found.get("message", ""))) if isinstance(found, dict) else ""
            text = str(found.get("message", "") if isinstance(found, dict) else found)
        except InputError:
            text = ""
        if key := read_key():
            text = text.replace(key, "…")
        return f": {first_line(ValueError(text))[:300]}" if text.strip() else ""

    def _check_model(self, found: Mapping[str, Any]) -> None:
        name, wanted = found.get("model"), self.endpoint.model
        if isinstance(name, str) and name and name != wanted and not name.startswith(f"{wanted}@"):
            raise EndpointError(f"{self._place} answers with the model {name[:200]!r}, not {wanted!r}")

    @property
    def _place(self) -> str:
        return f"the server at {self.endpoint.url}"


def _end(opened: socket.socket) -> None:
    """Wake a thread that reads or writes: closing alone does not."""
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


def _seconds(reply: ServerReply) -> float:
    """How long the server asks to wait. Dates are ignored."""
    try:
        return min(max(float(reply.retry_after), 0.0), _LONGEST_WAIT)
    except ValueError:
        return 0.0
