"""Security: who may send requests, how large they may be, and the headers of every response.

Written by hand: Starlette's TrustedHostMiddleware does not support loopback ranges, and no middleware of Starlette or
FastAPI limits bodies, checks `Sec-Fetch-Site`, or requires a token for static files too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..system.peak_memory import return_free_memory

FORM_TYPE = "multipart/form-data"
PLAIN_BYTES = 4 * 2**20  # of a request without files: it is kept in memory as a whole
BODIES_BYTES = 256 * 2**20  # of all requests at a time: what is not a file stays in memory, and a file may
BODIES_WAIT = 5  # seconds after which a client that finds no room may try again
DEFAULT_POLICY = "default-src 'none'; frame-ancestors 'none'"
SECURITY_HEADERS = {
    "content-security-policy": DEFAULT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """Limits of one request and of the queue."""

    upload_bytes: int = 32 * 2**20  # of one request
    pictures: int = 8
    pixels: int = 24_000_000  # of all pictures of one request, decoded
    question: int = 4_000  # characters
    methods: int = 6
    new_tokens: int = 1024
    waiting: int = 16  # requests in the queue
    patience: float = 30.0  # seconds without a client asking before a request counts as abandoned
    body_seconds: float = 120.0  # for a request to arrive
    grace: float = 30.0  # seconds in which the running request may finish when the server stops


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, token: str, upload_bytes: int, body_seconds: float):
        self.app, self.token, self.upload_bytes, self.body_seconds = app, token, upload_bytes, body_seconds
        self.arrived, self._room = 0, max(BODIES_BYTES, upload_bytes)  # for the bodies of all requests in progress
        # Browsers send cookies to all servers of a host: one of another VTrace must not replace ours.
        self.cookie = f"vtrace-token-{hashlib.sha256(token.encode()).hexdigest()[:16]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        app = self.app if refusal is None else refusal
        body = _Body(receive, self._most_bytes(headers), self.body_seconds, self._make_room)
        try:
            await app(scope, body.receive, _with_headers(send))
        finally:
            self.arrived -= body.size
            if body.size > PLAIN_BYTES:
                return_free_memory()

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request that is refused; None if it is allowed."""
        host = headers.get("host", "")
        if not self.token and not is_loopback(_hostname(host)):
            # Another site can point its own name at 127.0.0.1; the browser then sends that name as the host.
            return _refuse(421, "this server answers requests for localhost only")
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and _from_elsewhere(headers, host):
            return _refuse(403, "requests from other sites are refused")
        if self.token and not self._knows_token(headers):
            return self._sign_in(scope)
        length = headers.get("content-length", "0")
        most = self._most_bytes(headers)
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            return _refuse(413, _too_large(most))
        return None

    def _knows_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._same(given.strip()):
            return True
        return any(self._same(value) for value in _cookies(headers, self.cookie))

    def _sign_in(self, scope: Scope) -> Response:
        """`/?token=…` exchanges the token for a cookie, so that it does not stay in the address."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self._same(given):
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        how = "open the address that 'vtrace serve' printed, or send 'Authorization: Bearer TOKEN'"
        return _refuse(401, f"a token is required: {how}", {"www-authenticate": "Bearer"})

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _most_bytes(self, headers: Headers) -> int:
        """Only files may be large: they are spooled to disk as they arrive."""
        has_files = headers.get("content-type", "").lower().startswith(FORM_TYPE)
        return self.upload_bytes if has_files else min(self.upload_bytes, PLAIN_BYTES)

    def _make_room(self, size: int) -> None:
        """Count bytes that have arrived, or refuse a request that would need too much memory with the others."""
        if self.arrived + size > self._room:
            why = f"too much is being sent at once; try again in {BODIES_WAIT} s"
            raise HTTPException(429, why, {"retry-after": str(BODIES_WAIT)})
        self.arrived += size


class _Body:
    """The body of one request: counted as it arrives, and it has to arrive in time."""

    def __init__(self, receive: Receive, most: int, seconds: float, make_room: Callable[[int], None]):
        self.size = 0
        self._receive, self._most, self._seconds, self._make_room = receive, most, seconds, make_room
        self._until = asyncio.get_running_loop().time() + seconds
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:  # what follows is the end of the connection, whenever that is
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise HTTPException(408, f"the request took longer than {self._seconds:g} seconds") from error
        self._complete = not message.get("more_body", False)
        arrived = len(message.get("body", b""))
        if self.size + arrived > self._most:
            raise HTTPException(413, _too_large(self._most))
        self._make_room(arrived)
        self.size += arrived
        return message


def _too_large(most: int) -> str:
    return f"the request is larger than the limit of {most} bytes; send less, or smaller pictures"


def _refuse(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": why}, status, headers)


def _cookies(headers: Headers, name: str) -> list[str]:
    """Values of all cookies of this name. Other applications on this host may have set any cookies, in any form."""
    pairs = [pair.partition("=") for header in headers.getlist("cookie") for pair in header.split(";")]
    return [value.strip().strip('"') for found, _, value in pairs if found.strip() == name]


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _from_elsewhere(headers: Headers, host: str) -> bool:
    """Whether a browser sent this on behalf of another site. Programs send neither header."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != host


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
