"""Start, serve, stop: work in progress is finished or recorded."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import FrameType

import uvicorn

from ..errors import InputError, first_line
from ..lvlm.hub import go_offline
from ..system.peak_memory import share_free_memory
from .application import create_app
from .connections import TimedProtocol
from .evaluation_runs import EvaluationRuns
from .service import ExplanationService


class ExplanationServer(uvicorn.Server):
    """uvicorn with a service that stops first, so that open connections still learn how their work ended."""

    def __init__(self, service: ExplanationService, runs: EvaluationRuns, token: str = ""):
        self.service = service
        super().__init__(
            uvicorn.Config(
                create_app(service, runs, token),
                http=TimedProtocol,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=round(service.limits.grace) + 10,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second signal does not wait for work in progress.

        uvicorn would raise the signal again at the end, which ends the process before the history is closed.
        """
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = threading.Thread(target=self.service.stop, daemon=True)  # a second Ctrl-C does not wait for it
        stopping.start()
        await super().shutdown(sockets)
        while stopping.is_alive() and not self.force_exit:
            await asyncio.sleep(0.05)


def take_address(host: str, port: int) -> socket.socket:
    """A socket bound to this address, before any slow work."""
    found = None
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, UnicodeError) as error:
        if found:
            found.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {first_line(error)}; choose another --port or --host"
        ) from error
    return found


def run_server(service: ExplanationService, runs: EvaluationRuns, listening: socket.socket, token: str) -> None:
    """Serve until a signal arrives, without a connection to any other machine."""
    go_offline()
    share_free_memory()
    service.start()
    ExplanationServer(service, runs, token).run(sockets=[listening])
