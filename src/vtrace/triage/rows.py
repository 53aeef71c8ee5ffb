"""What is kept about every explained question: one row, and its viewer file."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from ..benchmarks.grading import Verdict
from ..types import Finish


class VerifiedInBrief(TypedDict):
    """The verification of an explanation in brief; the viewer file has all of it."""

    verdict: str  # in words
    inputs: int | None  # fewest that change the answer when hidden; None if none do
    answer: str | None  # what the model answers then
    draws: int  # random sets of the same size
    changed: int  # how many of them change the answer as well


class ExplanationRow(TypedDict):
    """One explained question. Boxes are [left, top, right, bottom] as fractions of the thumbnail's sides."""

    key: str
    number: int
    page: str  # the viewer file, relative to the folder
    question: str
    response: str
    answer: str | None
    gold: str | None
    verdict: Verdict | None  # None if the correct answer is not known
    target: str
    tokens: int
    finish: Finish
    foreign: bool  # whether an embedded model was asked about something that it does not know
    calibration: str  # its status
    image_share: float
    dependence: float | None  # log p of the target with the pictures minus without, in nats; None if not measured
    response_dependence: float | None  # the same of the whole response
    inside: float | None  # part of the image share that is inside the given boxes; None if there are none
    covered: float | None  # part of the patches that is: what `inside` would be by chance
    met: bool | None  # whether any of the strongest patches, which hold half of the image share, is inside
    verification: VerifiedInBrief | None  # None if it was not verified
    pictures: int
    thumbnail: str  # data URL of the picture with the largest share; empty without pictures
    evidence: list[list[float]]  # boxes around the strongest patches
    given: list[list[float]]  # boxes given with the question


class ExplainedItem(NamedTuple):
    """What comes of one question: its row and the text of its viewer file."""

    row: ExplanationRow
    page: str
