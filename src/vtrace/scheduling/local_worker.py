"""The main function of a local worker process: tasks come in and events go out over one connection."""

from __future__ import annotations

import os
import pickle
import queue
import threading
from multiprocessing.connection import Connection
from typing import Any

from ..errors import first_line
from .tasks import Event, Raised
from .worker_host import WorkerHost


def serve(descriptor: int) -> None:
    """Work until the driver closes the connection, or dies."""
    connection = Connection(descriptor)
    recipe, seat = connection.recv()
    host = WorkerHost(recipe, seat)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    _send(connection, host.start())
    while True:
        _send(connection, host.run(inbox.get()))


def _receive(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Tasks are read at once, so that the driver never waits to send one. Without a driver, work is useless."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _send(connection: Connection, event: Event) -> None:
    try:
        data = pickle.dumps(event)
    except Exception as error:
        data = pickle.dumps(Raised(event.seat, f"the result cannot be sent: {first_line(error)}"))
    connection.send_bytes(data)
