"""The rows of a run and of its frozen responses, as stored in their databases: one type per table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from ..benchmarks.grading import Verdict
from ..types import Finish, Setting
from .curves import Mode

TableName = Literal["item", "result", "curve", "evidence", "failure", "left_out", "lost"]
EvaluatedTarget = Literal["response", "answer"]
EvidenceKind = Literal["image", "question"]
ResponseSource = Literal["generated", "endpoint", "supplied"]  # supplied: by the benchmark's file or a log


class TargetAndMethod(NamedTuple):
    """One attribution of an item, as it is named in rows."""

    target: EvaluatedTarget
    method: str


class RunSettings(TypedDict):
    """Settings that all rows of a run share. A run made with other settings is refused."""

    model: str
    revision: str
    dtype: str
    family: str  # "auto" if the places of image tokens were found by probing, or empty
    benchmark: str
    blur: float  # radius, as a fraction of the longer side
    steps: int
    seed: int
    calibrated: bool | list[str]
    options: Mapping[str, Mapping[str, Any]]  # of methods, by name
    variants: Mapping[str, str]  # further names, and the method that each stands for
    max_new_tokens: int
    system: str


class ItemRow(TypedDict):
    """One example and the frozen response to it."""

    key: str
    number: int
    asked: str  # fingerprint of the example
    question: str
    response: str
    answer: str | None
    gold: str | None
    verdict: Verdict | None
    correct: int | None  # 1, 0, or None where it is unknown
    tokens: int
    image_tokens: int
    finish: Finish
    reply: str  # tokens of the response, as JSON
    clean: float  # likelihood of the response with all inputs,
    image_perturbed: float  # with every patch blurred,
    joint_perturbed: float  # and with every word padded as well


class ResultRow(TypedDict):
    """One attribution: an item, a target and a method."""

    item: str
    target: EvaluatedTarget
    method: str
    options: str  # JSON
    image_share: float
    seconds: float  # as if it had run alone
    own_seconds: float  # without stages shared with other methods
    memory: int | None  # bytes
    passes: NotRequired[int | None]  # sequences decoded, as if it had run alone; runs of older versions do not have it


class CurveRow(TypedDict):
    """One perturbation curve of an attribution. The database stores NaN as None."""

    item: str
    target: EvaluatedTarget
    method: str
    setting: Setting
    mode: Mode
    rise: float | None
    mas: float | None
    degenerate: int
    unranked: int
    response: str  # heights of the curve, as JSON
    mass: str  # JSON


class EvidenceRow(TypedDict):
    """How well an attribution finds the known evidence, or the measured dependence, by one metric."""

    item: str
    target: EvaluatedTarget
    method: str
    kind: EvidenceKind
    metric: str
    value: float | None


class FailureRow(TypedDict):
    """Why one method has no attribution of an item."""

    item: str
    target: EvaluatedTarget
    method: str
    reason: str


class LeftOutRow(TypedDict):
    """Why an item could not be measured at all."""

    item: str
    reason: str


class LostRow(TypedDict):
    """A file of the benchmark that could not be read."""

    file: str
    reason: str


@dataclass(frozen=True)
class RunRows:
    """Rows by table: those of a whole run, or those that one item adds to it."""

    item: list[ItemRow] = field(default_factory=list)
    result: list[ResultRow] = field(default_factory=list)
    curve: list[CurveRow] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    failure: list[FailureRow] = field(default_factory=list)
    left_out: list[LeftOutRow] = field(default_factory=list)
    lost: list[LostRow] = field(default_factory=list)

    def extend(self, more: RunRows) -> None:
        """Add the rows of another run, or of another item."""
        for table, rows in vars(more).items():
            getattr(self, table).extend(rows)


class TraceSettings(TypedDict):
    """What all responses of a folder have in common."""

    model: str
    revision: str  # fingerprint of the weights; empty if a server has them
    dtype: str
    family: str  # as in `RunSettings`
    served_model: str  # the name under which a server knows the model; empty if it ran here
    benchmark: str
    system: str
    max_new_tokens: int


class ResponseRow(TypedDict):
    """One frozen response."""

    key: str
    number: int
    asked: str  # fingerprint of the example
    reply: str  # tokens, as JSON
    finish: Finish
    text: str
    source: ResponseSource
    round_trips: int | None  # whether tokens made from a text decode to it; None for exact tokens


@dataclass(frozen=True)
class TraceRows:
    """Responses, and why other items have none."""

    response: list[ResponseRow] = field(default_factory=list)
    left_out: list[LeftOutRow] = field(default_factory=list)
