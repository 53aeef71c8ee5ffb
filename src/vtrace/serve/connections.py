"""Connections that are slow on purpose: headers have to arrive in time, so does the rest of a refused body, and a
response has to be read.

uvicorn limits the time between requests only. The time for a body is limited in `security`, where it is read.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .security import SECURITY_HEADERS

HEADER_SECONDS = 20.0
DRAIN_SECONDS = 5.0  # for the rest of a body that nobody reads
STALL_SECONDS = 60.0  # in which a client has to take some of its response
UNREAD_BYTES = 256 * 2**20  # of responses that are waiting for their clients


class TimedProtocol(H11Protocol):
    """One connection."""

    header_seconds, stall_seconds, unread_bytes = HEADER_SECONDS, STALL_SECONDS, UNREAD_BYTES
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _paused = math.inf  # when the client became too slow

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_waiting()
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

    def pause_writing(self) -> None:
        """The client takes its response more slowly than it was made."""
        super().pause_writing()
        self._paused = self.loop.time()
        self._wait_for_client(self.transport.get_write_buffer_size())
        if sum(map(_unread, self.connections)) > self.unread_bytes:
            _give_up(min(self.connections, key=_paused_since))

    def resume_writing(self) -> None:
        self._stop_waiting()
        self._paused = math.inf
        super().resume_writing()

    def _wait_for_client(self, unread: int) -> None:
        def look() -> None:
            now = self.transport.get_write_buffer_size()
            if now < unread:
                self._wait_for_client(now)
            else:
                _give_up(self)

        self._stop_waiting()
        self._stalled = self.loop.call_later(self.stall_seconds, look)

    def _stop_waiting(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

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


def _give_up(connection: Any) -> None:
    """End a connection at once, also for the system, which would keep what it has not sent."""
    at_once = struct.pack("ii", 1, 0)
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    connection.transport.abort()


def _unread(connection: Any) -> int:
    """Bytes of its response that a client has not taken yet."""
    return connection.transport.get_write_buffer_size()


def _paused_since(connection: Any) -> float:
    return connection._paused
