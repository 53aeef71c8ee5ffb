"""The worker's side: make the worker from its recipe, and turn whatever happens into an event."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from importlib import import_module
from typing import Any

from ..errors import VTraceError, first_line, is_out_of_memory
from .tasks import Finished, Raised, Ready, Refused, Worker, WorkerRecipe


class WorkerHost:
    """One worker in its process. What is raised here ends the process: the scheduler replaces it."""

    def __init__(self, recipe: WorkerRecipe, seat: int):
        self._recipe, self._seat = recipe, seat
        self._worker: Worker | None = None

    def start(self) -> Ready | Refused:
        sys.stdout = sys.stderr  # what a worker prints belongs in its log, never among the driver's results
        module, _, function = self._recipe.factory.partition(":")
        try:
            home = import_module(module)
            worker = getattr(home, function)(**self._recipe.arguments)
        except VTraceError as error:
            return Refused(self._seat, str(error))
        self._worker = worker
        return Ready(self._seat, worker.greeting, socket.gethostname(), os.getpid())

    def run(self, payload: Any) -> Finished | Raised:
        """The exception of a task is a value, unless memory ran out, from which a process does not recover well."""
        assert self._worker is not None, "a worker gets tasks after it has started"
        began = time.perf_counter()
        try:
            value = self._worker.run(payload)
            return Finished(self._seat, value, time.perf_counter() - began)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            traceback.print_exc()  # into the worker's log
            return Raised(self._seat, f"{type(error).__name__}: {first_line(error)}")
