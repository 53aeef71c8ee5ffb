"""Workers as actors of a Ray cluster. An actor is one replica of the worker; Ray starts it where there is room."""

from __future__ import annotations

import os
import queue
import re
import socket
from concurrent.futures import Future
from typing import Any

from ..errors import InputError, first_line, is_out_of_memory
from .tasks import Died, Event, Refused, WorkerRecipe
from .worker_host import WorkerHost

_OBJECT_STORE = 200 * 2**20  # bytes, of a cluster that is started here; rows are small, and pictures do not travel
_PATIENCE = 30.0  # seconds, for the head of a cluster to answer


class RayPool:
    """Actors of a Ray cluster.

    Args:
        recipe: of the workers.
        address: of the cluster; None for that of the environment variable RAY_ADDRESS, or else one on this machine
            that ends with the run.
        cpus: that Ray reserves for a worker, which are also its threads.
        gpus: that Ray reserves for a worker, and shows to it; may be a fraction.
        logs: show what workers print.
    """

    def __init__(
        self, recipe: WorkerRecipe, address: str | None = None, cpus: float = 1, gpus: float = 0, logs: bool = False
    ):
        try:
            import ray
        except ImportError as error:
            raise InputError("Ray is not installed; install it with: pip install 'vtrace-attribution[ray]'") from error
        self._ray, self._recipe = ray, recipe
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            _connect(ray, address, logs)
        try:
            _check_capacity(ray.nodes(), cpus, gpus)
        except InputError:
            self._disconnect()
            raise
        # A dead actor is not restarted by Ray: it would not know which tasks to do again.
        self._actor = ray.remote(WorkerHost).options(num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0)
        self._actors: dict[int, Any] = {}
        self._answers: queue.SimpleQueue[tuple[int, Any, Future[Event]]] = queue.SimpleQueue()

    def start(self, seat: int) -> None:
        self._actors[seat] = actor = self._actor.remote(self._recipe, seat)
        self._expect(seat, actor, actor.start.remote())

    def submit(self, seat: int, payload: Any) -> None:
        actor = self._actors[seat]
        self._expect(seat, actor, actor.run.remote(payload))

    def _expect(self, seat: int, actor: Any, answer: Any) -> None:
        """Ray calls back: with a thousand workers, asking for each answer whether it is there would take too long."""
        answer.future().add_done_callback(lambda future: self._answers.put((seat, actor, future)))

    def stop(self, seat: int) -> None:
        self._ray.kill(self._actors.pop(seat))

    def wait(self, seconds: float) -> list[Event]:
        try:
            answers = [self._answers.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return [event for answer in answers if (event := self._event(*answer))]

    def _event(self, seat: int, actor: Any, future: Future[Event]) -> Event | None:
        if self._actors.get(seat) is not actor:
            return None  # of an actor that is gone
        error = future.exception()
        event = future.result() if error is None else Died(seat, _reason(error))
        if isinstance(event, Refused | Died):
            self.stop(seat)
        return event

    def close(self) -> None:
        for seat in list(self._actors):
            self.stop(seat)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connected_here:
            self._ray.shutdown()


def _connect(ray: Any, address: str | None, logs: bool) -> None:
    address = address or os.environ.get("RAY_ADDRESS") or None
    _check_reachable(address)
    own: dict[str, Any] = {} if address else {"object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    level = "WARNING" if logs else "ERROR"
    try:
        # "local": a cluster of its own, even if another one runs on this machine
        ray.init(address=address or "local", log_to_driver=logs, logging_level=level, configure_logging=logs, **own)
    except Exception as error:  # Ray raises a different class for each thing that can be wrong with a cluster
        raise InputError(_connection_problem(address, str(error))) from error
    # Ray has no public switch for what it prints on stdout when an actor dies. The scheduler says it in one line.
    ray._private.worker._worker_logs_enabled = logs


def _check_reachable(address: str | None) -> None:
    """Ray would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # none, or a name such as "auto"
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise InputError(f"there is no Ray cluster at {address}: {first_line(error)}") from error


def _connection_problem(address: str | None, message: str) -> str:
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", message)
    if len(versions) == 2:
        theirs, ours = (f"Ray {ray} on Python {python}" for ray, python in versions)
        return f"the Ray cluster at {address} runs {theirs}, but this process {ours}; install the same versions"
    where = f"cannot connect to a Ray cluster at {address}" if address else "cannot start Ray on this machine"
    return f"{where}: {first_line(Exception(message))}"


def _check_capacity(nodes: list[dict[str, Any]], cpus: float, gpus: float) -> None:
    """Ray would wait forever for a node that is large enough."""
    sizes = [(node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)) for node in nodes if node["Alive"]]
    if not any(cpus <= node_cpus and gpus <= node_gpus for node_cpus, node_gpus in sizes):
        largest = max(sizes, key=lambda size: size[::-1], default=(0, 0))
        raise InputError(
            f"no node of the Ray cluster has room for a worker with {cpus:g} CPUs and {gpus:g} GPUs; the largest has "
            f"{largest[0]:g} and {largest[1]:g}; use other --cpus-per-worker and --gpus-per-worker"
        )


def _reason(error: BaseException) -> str:
    """Why an actor is gone, in one line: Ray explains at length."""
    text = str(error)
    if is_out_of_memory(error) or "low on memory" in text:
        return "out of memory"
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {first_line(cause)}"
    told = re.search(r"Worker exit detail: (.*?)\. Some common causes|The actor is dead because (.*)", text)
    return next(filter(None, told.groups())).rstrip(".") if told else first_line(error)
