"""The service: one queue, one worker, one history. It accepts requests and records how each of them ended."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import InputError, VTraceError, is_out_of_memory
from ..system.peak_memory import return_free_memory
from ..viewer.page import page
from .evaluation_runs import RunResponse
from .experiment import ExperimentJob, ExperimentRequest, check_experiment, run_experiment
from .experiment_table import Experiment
from .history import STOPPED, History, HistoryRecord, is_disk_full
from .job import EndedStatus, ExplainedTarget, ExplanationJob, Job, JobCancelled, JobRequest
from .model_cache import ModelCache
from .queue import JobQueue, JoinQueue
from .security import Limits
from .stored_results import StoredResults, pack_results
from .submission import Offer, Submission, bare_question
from .turns import Turns
from .uploads import first_thumbnail
from .worker import explain_job

MOST_EXPERIMENTS = 200  # on one explanation
DELETED = "the explanation was deleted"
SWEEP = 0.5  # seconds between checks for abandoned jobs


class NoSuchExplanation(Exception):
    """The history has no explanation with this id."""


class NotPossibleNow(Exception):
    """The current state of the explanation does not allow the request."""


class MethodDocument(NamedTuple):
    """The attribution of one method, as JSON."""

    method: str
    text: str


class ExplanationService:
    """Explanations from request to result."""

    def __init__(self, models: ModelCache, methods: Sequence[str], history: History, limits: Limits):
        self.models, self.methods, self.history, self.limits = models, tuple(methods), history, limits
        self.queue = JobQueue(limits.waiting)
        self._decoding, self._building = Turns(limits.waiting), Turns(limits.waiting)
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
        """Check a question and put it into the queue. It gets a place there before any picture is read or decoded."""
        offer = self._offer()
        with self.queue.reserved() as join:
            with self._decoding.take():
                asked = offer.check(submission)
            return self._accept(join, offer.request(asked, model, methods, target), asked.pictures.thumbnail)

    def submit_frozen(
        self, find: Callable[[], RunResponse], methods: Sequence[str], target: ExplainedTarget
    ) -> HistoryRecord:
        """Put a response of an evaluation run into the queue, to be explained with the same tokens."""
        with self.queue.reserved() as join:
            with self._decoding.take():
                item = find()
                asked = bare_question(item.example)
            if item.model not in self.models.names:
                raise InputError(
                    f"this run was made with {item.model}; "
                    f"start the server with --model {item.model} to open its examples"
                )
            request = self._offer().request(asked, item.model, methods, target, item.reply)
            return self._accept(join, request, asked.pictures.thumbnail)

    def shown(self, find: Callable[[], RunResponse]) -> bytes:
        """A small version of the first picture of an example of a run."""
        with self._decoding.take():
            return first_thumbnail(find().example.images)

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
        record = self.find(id)
        if self.queue.find(id) and record.status in ("waiting", "running"):  # a finished one may not have left it yet
            raise NotPossibleNow("this explanation is still running; cancel it first")
        for job in self.queue.jobs():
            if isinstance(job, ExperimentJob) and job.explanation == id:
                self._cancel(job, DELETED)
        self.history.delete(id)

    def picture(self, id: str) -> bytes:
        """A small version of the first picture, as JPEG."""
        self.find(id)
        return self.history.thumbnail(id) or b""

    def document(self, id: str, method: str) -> MethodDocument | None:
        """The attribution of a method as JSON, or of the first one; None if there is no such method."""
        with self._building.take():
            results = self._results(id)
            name = method or results.methods[0].method
            document = results.document(name)
            return None if document is None else MethodDocument(name, json.dumps(document, ensure_ascii=False))

    def page(self, id: str, live: bool = False) -> str:
        """The viewer with all methods and experiments; a live one can ask this server for more."""
        with self._building.take():
            results = self._results(id).attributions()
            found = [one.model_dump(mode="json") for one in self.history.experiments.of(id)]
            server = {"path": f"/api/explanations/{id}/experiments", "problem": self._problem(id)} if live else None
            return page(results, experiments=found, server=server)

    def experiment(self, id: str, request: ExperimentRequest) -> Experiment:
        """Check an experiment on a finished explanation and put it into the queue."""
        with self.queue.reserved() as join:
            with self._building.take():
                check_experiment(request, self._results(id).bare_trace())
            if problem := self._problem(id):
                raise NotPossibleNow(problem)
            if self.history.experiments.count(id) >= MOST_EXPERIMENTS:
                raise NotPossibleNow(f"this explanation has {MOST_EXPERIMENTS} experiments; ask the question again")
            job = ExperimentJob(uuid.uuid4().hex, id, request)
            join(job, lambda: self.history.experiments.add(job))
        return self.find_experiment(id, job.id)

    def find_experiment(self, id: str, experiment: str) -> Experiment:
        self.find(id)
        if job := self.queue.find(experiment):
            job.touch()
        found = self.history.experiments.find(id, experiment)
        if found is None:
            raise NoSuchExplanation
        return found

    def cancel_experiment(self, id: str, experiment: str) -> Experiment:
        """Cancel an experiment. A finished one stays."""
        self.find_experiment(id, experiment)
        if job := self.queue.find(experiment):
            self._cancel(job, "cancelled")
        return self.find_experiment(id, experiment)

    def _problem(self, id: str) -> str:
        """Why the model cannot be asked again; empty if it can."""
        model = self.find(id).model
        if model in self.models.names:
            return ""
        return f"this explanation was made with {model}; start the server with --model {model} to ask it again"

    def _results(self, id: str) -> StoredResults:
        record = self.find(id)
        results = self.history.results(id)
        if record.status != "done" or results is None:
            raise NotPossibleNow(f"this explanation is {record.status}; it has no result")
        return results

    # Background work

    def _offer(self) -> Offer:
        return Offer(self.models.names, self.methods, self.limits)

    def _accept(self, join: JoinQueue, request: JobRequest, small: bytes) -> HistoryRecord:
        """Put a request into its place. It is in the history before the work begins."""
        join(ExplanationJob(request), lambda: self.history.add(request, small))
        return self.find(request.id)

    def _cancel(self, job: Job, why: str) -> None:
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
                del job  # nothing of it is kept while the next one is awaited
                return_free_memory()

    def _run(self, job: Job, began: float) -> None:
        try:
            if isinstance(job, ExperimentJob):
                self._try_out(job, began)
            elif isinstance(job, ExplanationJob):
                self._explain(job, began)
        except JobCancelled as stopped:
            status: EndedStatus = "interrupted" if self._stopping.is_set() else "cancelled"
            self._end(job, status, str(stopped), time.monotonic() - began)
        except NoSuchExplanation:  # an experiment whose explanation was deleted while its model was loaded
            self._end(job, "cancelled", DELETED, time.monotonic() - began)
        except VTraceError as error:
            self._end(job, "failed", str(error), time.monotonic() - began)
        except Exception as error:
            self._end(job, "failed", _explain_failure(error), time.monotonic() - began)

    def _explain(self, job: ExplanationJob, began: float) -> None:
        request = job.request
        self.history.begin(request.id)
        job.update(status="running", stage="loading the model")
        results = explain_job(self.models.get(request.model), job, self.limits.new_tokens)
        trace = results[0].trace
        packed = pack_results(results, request.pictures)
        self.history.finish(request.id, packed, trace.response, trace.answer_text, time.monotonic() - began)
        job.update(status="done", stage="")

    def _try_out(self, job: ExperimentJob, began: float) -> None:
        self.history.experiments.begin(job.id)
        job.update(status="running", stage="loading the model")
        lvlm = self.models.get(self.find(job.explanation).model)
        result = run_experiment(lvlm, self._results(job.explanation), job)
        self.history.experiments.finish(job.id, result, job.state.text, time.monotonic() - began)
        job.update(status="done", stage="")

    def _end(self, job: Job, status: EndedStatus, error: str, seconds: float | None = None) -> None:
        try:
            table = self.history.experiments if isinstance(job, ExperimentJob) else self.history
            table.end(job.id, status, error, job.state.text, seconds)
        except sqlite3.ProgrammingError:  # the server has stopped and closed the history
            return
        except Exception:  # a full disk must not stop the queue
            traceback.print_exc(file=sys.stderr)
        job.update(status=status, stage="", error=error)

    def _sweep(self) -> None:
        """Cancel jobs whose clients have left."""
        while not self._stopping.wait(SWEEP):
            for job in self.queue.jobs():
                if job.abandoned(self.limits.patience):
                    self._cancel(job, "the client left")


def _explain_failure(error: Exception) -> str:
    """One line for the client; the traceback of a bug goes to the server's log."""
    if is_disk_full(error):
        return "the disk is full; free some space or delete explanations, then ask again"
    if is_out_of_memory(error):
        return "out of memory; use a smaller picture"
    traceback.print_exception(error, file=sys.stderr)
    return "an error inside VTrace; see the server's log"
