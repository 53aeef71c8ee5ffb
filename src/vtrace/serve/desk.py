"""The desk: lets requests in, works on one at a time, and writes down how each of them ended."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from ..errors import VTraceError
from ..lvlm.load import load
from ..lvlm.model import Lvlm
from ..report.documents import attribution_document
from .explain import explain
from .limits import Limits, thumbnail
from .queue import Cancelled, Job, Queue, Request
from .store import Store

SWEEP = 0.5  # seconds between looks for clients that have left
STOPPED = "the server was stopped"


class Models:
    """The models that the server was started with. One of them is in memory at a time."""

    def __init__(self, names: Sequence[str], load_model: Callable[[str], Lvlm] = load):
        self.names = tuple(dict.fromkeys(names))
        self._load = load_model
        self._loaded: tuple[str, Lvlm] | None = None

    def get(self, name: str) -> Lvlm:
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = None  # before the next one takes its memory
            self._loaded = (name, self._load(name))
        return self._loaded[1]


class Desk:
    """One queue, one worker, one store."""

    def __init__(self, models: Models, methods: Sequence[str], store: Store, limits: Limits):
        self.models, self.methods, self.store, self.limits = models, tuple(methods), store, limits
        self.queue = Queue(limits.waiting)
        self._stopping = threading.Event()
        self._worker = threading.Thread(target=self._work, name="worker", daemon=True)
        self._sweeper = threading.Thread(target=self._sweep, name="sweeper", daemon=True)

    def open(self) -> None:
        self._worker.start()
        self._sweeper.start()

    def accept(self, request: Request) -> Job:
        """Let a request in, or raise `Full`. It is in the store before the work begins."""
        job = Job(request)
        small = thumbnail(request.example.images[0])
        r = request
        self.queue.join(
            job, lambda: self.store.add(r.id, r.model, r.methods, r.target, r.example.question, small)
        )  # fmt: skip
        return job

    def cancel(self, job: Job, why: str) -> None:
        if self.queue.leave(job):
            self._end(job, "cancelled", why)
        else:
            job.stop(why)

    def shut(self) -> None:
        """Let nobody in; the running job may finish within its time; everything else is recorded. Can be repeated."""
        self._stopping.set()
        for waiting in self.queue.close():
            self._end(waiting, "interrupted", STOPPED)
        self._worker.join(self.limits.grace)
        if job := self.queue.running:
            job.stop(STOPPED)
            self._worker.join(min(self.limits.grace, 5.0))
        if job := self.queue.running:  # deep inside a pass that cannot be left
            self._end(job, "interrupted", STOPPED)

    def _work(self) -> None:
        while (job := self.queue.next()) is not None:
            began = time.monotonic()
            try:
                self._serve(job, began)
            finally:
                self.queue.done(time.monotonic() - began)

    def _serve(self, job: Job, began: float) -> None:
        request = job.request
        try:
            self.store.begin(request.id)
            job.update(status="running", stage="loading the model")
            results = explain(self.models.get(request.model), job, self.limits.new_tokens)
            frozen = results[0].trace
            documents = [(result.method, attribution_document(result)) for result in results]
            self.store.finish(
                request.id, documents, frozen.response, frozen.answer_text, time.monotonic() - began
            )  # fmt: skip
            job.update(status="done", stage="")
        except Cancelled as stopped:
            status = "interrupted" if self._stopping.is_set() else "cancelled"
            self._end(job, status, str(stopped), time.monotonic() - began)
        except VTraceError as error:
            self._end(job, "failed", str(error), time.monotonic() - began)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            full = isinstance(error, MemoryError) or "memory" in str(error)
            short = "out of memory; use a smaller picture" if full else "an error inside VTrace; see the server's log"
            self._end(job, "failed", short, time.monotonic() - began)

    def _end(self, job: Job, status: str, error: str, seconds: float | None = None) -> None:
        try:
            self.store.end(job.request.id, status, error, job.state.text, seconds)
        except Exception:  # a full disk must not stop the queue
            traceback.print_exc(file=sys.stderr)
        job.update(status=status, stage="", error=error)

    def _sweep(self) -> None:
        """Clients that have left: nobody follows their job, and nobody has asked for it for a while."""
        while not self._stopping.wait(SWEEP):
            for job in self.queue.jobs():
                if job.left(self.limits.patience):
                    self.cancel(job, "the client left")
