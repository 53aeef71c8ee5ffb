"""Workers as processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from .tasks import Died, Event, Refused, WorkerRecipe

# Processes are started anew, never forked: a fork of a process with threads can hang. The caller's own script is not
# imported again, as `multiprocessing` would.
_START = "import sys; sys.path[:] = {path!r}; from {package}.local_worker import serve; serve({descriptor})"
_LOG_LINES = 20  # that are kept of a worker's log, to say why it died


def usable_cores() -> int:
    """Cores that this process may use, which a batch system can restrict."""
    return len(os.sched_getaffinity(0))


class _Process:
    """One worker process, its connection, and a thread that reads its log."""

    def __init__(self, recipe: WorkerRecipe, seat: int, environment: Mapping[str, str], log: Callable[[str], None]):
        self.connection: Connection[Any, Any]
        self.connection, theirs = Pipe()
        code = _START.format(path=sys.path, package=__package__, descriptor=theirs.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for the driver, which decides what becomes of workers
            text=True,
            errors="replace",
        )
        theirs.close()
        self._last: deque[str] = deque(maxlen=_LOG_LINES)
        self._reader = threading.Thread(target=self._read, args=(seat, log), daemon=True)
        self._reader.start()
        self.send((recipe, seat))

    def _read(self, seat: int, log: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._last.append(line.rstrip())
            log(f"[worker {seat + 1}] {line.rstrip()}")

    def send(self, message: Any) -> None:
        with suppress(OSError):  # if it is dead, the next `wait` reports it
            self.connection.send(message)

    def end(self) -> str:
        """Kill what is left of it, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.connection.close()
        if code < 0:
            name = signal.Signals(-code).name
            return f"killed by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")
        said = next((line for line in reversed(self._last) if line), "")
        return f"exit code {code}" + (f": {said}" if said else "")


class LocalPool:
    """Processes on this machine, which share its cores.

    Args:
        recipe: of the workers.
        workers: how many there will be at most; each gets its share of the cores as threads.
        environments: further environment variables, for each seat in turn, such as the GPU it uses.
        log: takes the lines that workers print, prefixed with their number.
    """

    def __init__(
        self,
        recipe: WorkerRecipe,
        workers: int,
        environments: Sequence[Mapping[str, str]] = (),
        log: Callable[[str], None] = lambda line: None,
    ):
        self._recipe, self._log = recipe, log
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, usable_cores() // workers))}
        self._environments = [{**threads, **own} for own in environments or ({},)]
        self._processes: dict[int, _Process] = {}

    def start(self, seat: int) -> None:
        environment = self._environments[seat % len(self._environments)]
        self._processes[seat] = _Process(self._recipe, seat, environment, self._log)

    def submit(self, seat: int, payload: Any) -> None:
        self._processes[seat].send(payload)

    def stop(self, seat: int) -> None:
        self._processes.pop(seat).end()

    def wait(self, seconds: float) -> list[Event]:
        seats = {process.connection: seat for seat, process in self._processes.items()}
        return [self._receive(seats[connection]) for connection in wait(list(seats), seconds)]  # type: ignore[index]

    def _receive(self, seat: int) -> Event:
        """What a worker did before it died is read first: the connection ends after its last message."""
        try:
            event: Event = self._processes[seat].connection.recv()
        except (EOFError, OSError):
            return Died(seat, self._processes.pop(seat).end())
        if isinstance(event, Refused):
            self.stop(seat)
        return event

    def close(self) -> None:
        for seat in list(self._processes):
            self.stop(seat)
