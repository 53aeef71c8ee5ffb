"""The service: one queue, one worker, one history. It accepts requests and records how each of them ended."""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Sequence

from ..attribution.result import Attribution
from ..errors import InputError, VTraceError, is_out_of_memory
from ..report.documents import attribution_document, from_document
from ..viewer.page import page
from .evaluation_runs import RunResponse
from .history import STOPPED, History, HistoryRecord, MethodDocument
from .job import EndedStatus, ExplainedTarget, ExplanationJob, JobCancelled, JobRequest
from .model_cache import ModelCache
from .queue import JobQueue
from .security import Limits
from .submission import Offer, Submission
from .uploads import thumbnail
from .worker import explain_job

SWEEP = 0.5  # seconds between checks for abandoned jobs


class NoSuchExplanation(Exception):
    """The history has no explanation with this id."""


class NotPossibleNow(Exception):
    """The current state of the explanation does not allow the request."""


class ExplanationService:
    """Explanations from request to result."""

    def __init__(self, models: ModelCache, methods: Sequence[str], history: History, limits: Limits):
        self.models, self.methods, self.history, self.limits = models, tuple(methods), history, limits
        self.queue = JobQueue(limits.waiting)
        self._stopping = threading.Event()
        self._worker = threading.Thread(target=self._work, name="worker", daemon=True)
        self._sweeper = threading.Thread(target=self._sweep, name="sweeper", daemon=True)

    def start(self) -> None:
        self._worker.start()
        self._sweeper.start()

    def stop(self) -> None:
        """Refuse new requests; let the running job finish within the grace period; record the rest. Can be repeated."""
        self._stopping.set()
        for waiting in self.queue.close():
            self._end(waiting, "interrupted", STOPPED)
        self._worker.join(self.limits.grace)
        if job := self.queue.running:
            job.stop(STOPPED)
            self._worker.join(min(self.limits.grace, 5.0))
        if job := self.queue.running:  # inside a pass that cannot be interrupted
            self._end(job, "interrupted", STOPPED)

    # Requests of clients

    def submit(
        self, submission: Submission, model: str, methods: Sequence[str], target: ExplainedTarget
    ) -> HistoryRecord:
        """Check a question and put it into the queue."""
        offer = self._offer()
        return self._accept(offer.request(offer.example(submission), model, methods, target))

    def submit_frozen(self, item: RunResponse, methods: Sequence[str], target: ExplainedTarget) -> HistoryRecord:
        """Put a response of an evaluation run into the queue, to be explained with the same tokens."""
        if item.model not in self.models.names:
            raise InputError(
                f"this run was made with {item.model}; start the server with --model {item.model} to open its examples"
            )
        return self._accept(self._offer().request(item.example, item.model, methods, target, item.reply))

    def find(self, id: str) -> HistoryRecord:
        record = self.history.find(id)
        if record is None:
            raise NoSuchExplanation
        return record

    def look(self, id: str) -> HistoryRecord:
        """The same on behalf of a client, which keeps the job from being abandoned."""
        if job := self.queue.find(id):
            job.touch()
        return self.find(id)

    def place(self, record: HistoryRecord) -> int:
        """Place in the queue; 0 if it is not waiting."""
        job = self.queue.find(record.id)
        return job.place if job and record.status == "waiting" else 0

    def cancel(self, id: str) -> HistoryRecord:
        """Cancel an explanation. A finished one stays."""
        if job := self.queue.find(id):
            self._cancel(job, "cancelled")
        return self.find(id)

    def delete(self, id: str) -> None:
        self.find(id)
        if self.queue.find(id):
            raise NotPossibleNow("this explanation is still running; cancel it first")
        self.history.delete(id)

    def picture(self, id: str) -> bytes:
        """A small version of the first picture, as JPEG."""
        self.find(id)
        return self.history.thumbnail(id) or b""

    def documents(self, id: str) -> dict[str, bytes]:
        """Attributions as JSON, by method."""
        record = self.find(id)
        if record.status != "done":
            raise NotPossibleNow(f"this explanation is {record.status}; it has no result")
        return self.history.documents(id)

    def page(self, id: str) -> str:
        """The viewer with all methods."""
        results = []
        for method, document in self.documents(id).items():
            result = from_document(json.loads(document), f"the result of {method}")
            assert isinstance(result, Attribution)
            results.append(result)
        return page(results)

    # Background work

    def _offer(self) -> Offer:
        return Offer(self.models.names, self.methods, self.limits)

    def _accept(self, request: JobRequest) -> HistoryRecord:
        """Accept a request, or raise `QueueFull`. It is in the history before the work begins."""
        small = thumbnail(request.example.images[0])
        self.queue.join(ExplanationJob(request), lambda: self.history.add(request, small))
        return self.find(request.id)

    def _cancel(self, job: ExplanationJob, why: str) -> None:
        if self.queue.leave(job):
            self._end(job, "cancelled", why)
        else:
            job.stop(why)

    def _work(self) -> None:
        while (job := self.queue.next()) is not None:
            began = time.monotonic()
            try:
                self._run(job, began)
            finally:
                self.queue.done(time.monotonic() - began)

    def _run(self, job: ExplanationJob, began: float) -> None:
        try:
            self._explain(job, began)
        except JobCancelled as stopped:
            status: EndedStatus = "interrupted" if self._stopping.is_set() else "cancelled"
            self._end(job, status, str(stopped), time.monotonic() - began)
        except VTraceError as error:
            self._end(job, "failed", str(error), time.monotonic() - began)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            full = is_out_of_memory(error)
            short = "out of memory; use a smaller picture" if full else "an error inside VTrace; see the server's log"
            self._end(job, "failed", short, time.monotonic() - began)

    def _explain(self, job: ExplanationJob, began: float) -> None:
        request = job.request
        self.history.begin(request.id)
        job.update(status="running", stage="loading the model")
        results = explain_job(self.models.get(request.model), job, self.limits.new_tokens)
        trace = results[0].trace
        documents = [MethodDocument(result.method, attribution_document(result)) for result in results]
        self.history.finish(request.id, documents, trace.response, trace.answer_text, time.monotonic() - began)
        job.update(status="done", stage="")

    def _end(self, job: ExplanationJob, status: EndedStatus, error: str, seconds: float | None = None) -> None:
        try:
            self.history.end(job.request.id, status, error, job.state.text, seconds)
        except Exception:  # a full disk must not stop the queue
            traceback.print_exc(file=sys.stderr)
        job.update(status=status, stage="", error=error)

    def _sweep(self) -> None:
        """Cancel jobs whose clients have left."""
        while not self._stopping.wait(SWEEP):
            for job in self.queue.jobs():
                if job.abandoned(self.limits.patience):
                    self._cancel(job, "the client left")
