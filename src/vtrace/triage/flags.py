"""What deserves a second look, as a pure function of a row."""

from __future__ import annotations

import math

from .rows import ExplanationRow, VerifiedInBrief

HALF_AS_LIKELY = math.log(2)  # nats: without the pictures, the response is still at least half as likely
OFTEN = 0.25  # part of the random draws

FOREIGN = "outside the model's world"
IGNORES = "answer ignores the picture"
OUTSIDE = "evidence outside the given box"
CUT_OFF = "cut off"
NO_ANSWER = "no final answer"
NOT_CALIBRATED = "not calibrated"
NO_CHANGE = "hiding the evidence changes nothing"
UNSPECIFIC = "hiding random inputs does the same"

# What each flag means, in the order in which they are listed.
FLAGS = {
    FOREIGN: "The embedded models know only Shapes. This picture or question is something else, so load a real model.",
    IGNORES: "Without the picture, the response is at least half as likely: hiding it costs less than 0.69 nats.",
    OUTSIDE: "None of the strongest patches, which together hold half of the image share, is inside the given boxes.",
    NO_CHANGE: "verify: no part of the ranking changes the answer, not even all inputs.",
    UNSPECIFIC: "verify: hiding as many random inputs changes the answer in more than a quarter of the draws.",
    CUT_OFF: "The response reached the token budget before it ended.",
    NO_ANSWER: 'The response has no line "Final answer:". With --target answer, the whole response was explained.',
    NOT_CALIBRATED: "Image and question could not be put on one scale, so the image share is not comparable.",
}


def flags_of(row: ExplanationRow) -> list[str]:
    """The flags of a row, in the order of `FLAGS`."""
    tested = row["verification"]
    raised = {
        FOREIGN: row["foreign"],
        IGNORES: (nats := row["response_dependence"]) is not None and nats < HALF_AS_LIKELY,
        OUTSIDE: row["met"] is False,
        NO_CHANGE: tested is not None and tested["inputs"] is None,
        UNSPECIFIC: tested is not None and is_unspecific(tested),
        CUT_OFF: row["finish"] == "length",
        NO_ANSWER: row["answer"] is None,
        NOT_CALIBRATED: row["calibration"].startswith("not applied"),
    }
    return [name for name in FLAGS if raised[name]]


def is_unspecific(tested: VerifiedInBrief) -> bool:
    """Whether random sets change the answer about as well as the evidence does."""
    return tested["draws"] > 0 and tested["changed"] > OFTEN * tested["draws"]
