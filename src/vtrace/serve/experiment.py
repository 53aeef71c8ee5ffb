"""Experiments on a finished explanation: hide inputs and ask again, contrast two answers, or verify it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from ..attribution.findings.contrast import contrast_document
from ..attribution.findings.verification_document import verification_document
from ..faithfulness.verify import verify
from ..faithfulness.what_if import hidden_positions, what_if, what_if_document
from ..lvlm.model import Lvlm
from ..methods.contrast import contrast
from ..tracing.spoken_text import spoken_text
from ..tracing.targets import find_target
from ..types import Setting, Target, Trace
from ..viewer.exported_methods import target_entry
from .job import Job
from .stored_results import StoredResults

_Positions = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31)]],
    Field(max_length=200_000),
    AfterValidator(lambda positions: sorted(set(positions))),  # stored, so none of them many times
]


class HideInputs(BaseModel, frozen=True, extra="forbid"):
    """What if these inputs were hidden, or all others?"""

    kind: Literal["hide", "keep"]
    positions: _Positions = Field(description="Image and question positions of the trace.")


class ContrastAnswers(BaseModel, frozen=True, extra="forbid"):
    """Why does the response say this, and not that?"""

    kind: Literal["against"]
    against: str = Field(max_length=1000, description="What the response could have said instead.")
    target: _Positions = Field(description="Response positions that it replaces: one run.")


class VerifyExplanation(BaseModel, frozen=True, extra="forbid"):
    """Does the answer depend on what the explanation names?"""

    kind: Literal["verify"]
    setting: Setting = Field("joint", description="Which inputs are hidden.")


ExperimentRequest = Annotated[HideInputs | ContrastAnswers | VerifyExplanation, Field(discriminator="kind")]


class ExperimentJob(Job):
    """An experiment in progress."""

    def __init__(self, id: str, explanation: str, request: ExperimentRequest):
        super().__init__(id)
        self.explanation, self.request = explanation, request

    def say(self, text: str) -> None:
        """Pass on the new response so far."""
        self.check()
        self.update(text=text)

    def report(self, done: int, total: int, label: str = "") -> None:
        self.check()
        self.update(stage=label.lower(), done=done, total=total)


def check_experiment(request: ExperimentRequest, trace: Trace) -> None:
    """Refuse at once what no model is needed to refuse."""
    if isinstance(request, HideInputs):
        hidden_positions(trace, request.positions, request.kind == "keep")
    elif isinstance(request, ContrastAnswers):
        _replaced(trace, request)
        spoken_text(request.against)


def run_experiment(lvlm: Lvlm, results: StoredResults, job: ExperimentJob) -> dict[str, Any]:
    """What was found, as JSON."""
    request = job.request
    if isinstance(request, VerifyExplanation):
        explained = results.attributions()[0]
        verified = verify(lvlm, explained, progress=job.report, setting=request.setting).verification
        assert verified is not None
        entry = target_entry(explained.target)
        return {"method": explained.method, "target": entry, **verification_document(verified)}
    trace = results.frozen_trace()
    if isinstance(request, ContrastAnswers):
        job.report(0, 0, "comparing the two answers")
        target = _replaced(trace, request)
        return {"target": target_entry(target), **contrast_document(contrast(lvlm, trace, request.against, target))}
    keep = request.kind == "keep"
    found = what_if(lvlm, trace, request.positions, keep=keep, listen=job.say, progress=job.report)
    job.update(text=found.text)
    return what_if_document(found)


def _replaced(trace: Trace, request: ContrastAnswers) -> Target:
    """What the alternative replaces, by its name if it has one."""
    chosen = find_target(trace, Target("the selected words", tuple(request.target)))
    answer = find_target(trace, "answer") if trace.answer else chosen
    return answer if answer.positions == chosen.positions else chosen
