"""What a client submits, checked against the server's own lists and limits. Names are looked up only there."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, NamedTuple

from ..benchmarks.embedded import SHOWN
from ..benchmarks.embedded import example as embedded
from ..errors import InputError
from ..tracing.example import tidy
from ..tracing.reply import Reply
from ..types import Example
from .job import ExplainedTarget, JobRequest
from .security import Limits
from .uploads import CheckedPictures, as_files, check_uploads

OFFERED_EXAMPLES = (SHOWN, *(f"test-{number:05d}" for number in (0, 1, 2, 4, 5, 7, 8)))


@dataclass(frozen=True)
class Submission:
    """A question as received."""

    question: str
    pictures: Sequence[IO[bytes]] = ()  # files that are read when there is a place in the queue
    example: str = ""  # instead of pictures


class CheckedQuestion(NamedTuple):
    """An example without its pictures, and those as files."""

    example: Example
    pictures: CheckedPictures


@dataclass(frozen=True)
class Offer:
    """What can be chosen on this server. The first of each is the default."""

    models: tuple[str, ...]
    methods: tuple[str, ...]
    limits: Limits

    def check(self, submission: Submission) -> CheckedQuestion:
        """Pictures and question, or an embedded example."""
        question = submission.question
        if len(question) > self.limits.question:
            raise InputError(f"the question has {len(question)} characters; the limit is {self.limits.question}")
        if submission.example and submission.pictures:
            raise InputError("pictures and an example are mutually exclusive")
        if submission.example:
            return bare_question(_offered_example(submission.example, question))
        pictures = check_uploads([file.read() for file in submission.pictures], self.limits)
        return CheckedQuestion(tidy(Example((), question)), pictures)

    def request(
        self,
        asked: CheckedQuestion,
        model: str,
        methods: Sequence[str],
        target: ExplainedTarget,
        reply: Reply | None = None,
    ) -> JobRequest:
        """A request for the queue, with a new id."""
        if len(methods) > self.limits.methods:
            raise InputError(f"there are {len(methods)} methods; the limit is {self.limits.methods}")
        chosen = dict.fromkeys(_choose("method", name, self.methods) for name in methods or [""])
        model = _choose("model", model, self.models)
        example, pictures = asked
        return JobRequest(uuid.uuid4().hex, model, tuple(chosen), target, example, reply, pictures.files)


def bare_question(example: Example) -> CheckedQuestion:
    """An example that is at hand, with its pictures as files: waiting requests must not hold decoded ones."""
    return CheckedQuestion(replace(example, images=()), as_files(example.images))


def _offered_example(key: str, question: str) -> Example:
    """An embedded example; its known evidence belongs to its own question only."""
    if key not in OFFERED_EXAMPLES:
        raise InputError(f"there is no such example; use one of: {', '.join(OFFERED_EXAMPLES)}")
    found = embedded(key)
    return found if found.question == question.strip() else tidy(Example(found.images, question))


def _choose(kind: str, name: str, known: tuple[str, ...]) -> str:
    """A name from the server's own list; the first one if none was given."""
    if name and name not in known:
        raise InputError(f"this server has no such {kind}; it has: {', '.join(known)}")
    return name or known[0]
