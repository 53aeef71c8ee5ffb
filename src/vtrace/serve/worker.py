"""The work itself: ask the model and explain its answer, with progress and cancellation at every token and layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..attribution.result import Attribution
from ..lvlm.model import Lvlm
from ..methods.registry import keeps_layers, run_method
from ..methods.session import TraceSession
from ..tracing.generate import retrace, trace
from ..tracing.targets import find_target
from ..types import Progress, Trace
from .job import ExplanationJob


class TokenStream:
    """Takes tokens as `generate` produces them. Text is passed on as soon as its characters are complete."""

    def __init__(self, decode: Callable[[list[int]], str], say: Callable[[str], None]):
        self._decode, self._say = decode, say
        self._ids: list[int] = []
        self._begun = False

    def put(self, ids: Any) -> None:
        if not self._begun:  # the prompt comes first
            self._begun = True
            return
        self._ids += ids.flatten().tolist()
        text = self._decode(self._ids)
        if not text.endswith("\ufffd"):
            self._say(text)

    def end(self) -> None: ...


def explain_job(lvlm: Lvlm, job: ExplanationJob, new_tokens: int) -> list[Attribution]:
    """One attribution for each requested method."""
    job.update(stage="reading the picture", done=0, total=0)
    frozen = _ask(lvlm, job, new_tokens)
    target = find_target(frozen, job.request.target)
    results: list[Attribution] = []
    session = TraceSession.open(lvlm, frozen, keep_layers=keeps_layers(job.request.methods))
    for method in job.request.methods:
        session.progress = _reporter(job, method)
        session.progress(0, 0)
        results.append(run_method(method, session, target))
    job.check()
    return results


def _ask(lvlm: Lvlm, job: ExplanationJob, new_tokens: int) -> Trace:
    request = job.request

    def say(text: str) -> None:
        job.check()
        job.update(stage="answering", text=text, done=0, total=0)

    if request.reply is not None:
        frozen = retrace(lvlm, request.open_example(), request.reply)
        say(frozen.response)
        return frozen
    tokenizer = lvlm.processor.tokenizer
    stream = TokenStream(lambda ids: tokenizer.decode(ids, skip_special_tokens=True), say)
    return trace(lvlm, request.open_example(), max_new_tokens=new_tokens, streamer=stream)


def _reporter(job: ExplanationJob, method: str) -> Progress:
    def report(done: int, total: int, label: str = "") -> None:
        job.check()
        job.update(stage=f"tracing with {method}", done=done, total=total)

    return report
