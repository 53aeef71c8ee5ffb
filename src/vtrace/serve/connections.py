"""Connections that are slow on purpose: headers have to arrive in time, and so does the rest of a refused body.

uvicorn limits the time between requests only. The time for a body is limited in `security`, where it is read.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .security import SECURITY_HEADERS

HEADER_SECONDS = 20.0
DRAIN_SECONDS = 5.0  # for the rest of a body that nobody reads


class TimedProtocol(H11Protocol):
    """One connection."""

    header_seconds = HEADER_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(DRAIN_SECONDS, self._close_unread)

    def _watch(self) -> None:
        """While a request has not arrived completely up to its body, the clock runs; more data do not reset it."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None and self.timeout_keep_alive_task is None:
            self._timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_unread(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """The answer to what is not HTTP, with the headers of every other response."""
        headers = {"content-type": "text/plain; charset=utf-8", "connection": "close", **SECURITY_HEADERS}
        encoded: list[tuple[bytes, bytes]] = [(name.encode(), value.encode()) for name, value in headers.items()]
        answer: list[Any] = [
            h11.Response(status_code=HTTPStatus.BAD_REQUEST, headers=encoded, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ]
        for event in answer:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
