"""Which facts raise which flag."""

from __future__ import annotations

import pytest

from vtrace.triage.flags import (
    CUT_OFF,
    FOREIGN,
    IGNORES,
    NO_ANSWER,
    NO_CHANGE,
    NOT_CALIBRATED,
    OUTSIDE,
    UNSPECIFIC,
    flags_of,
)
from vtrace.triage.rows import ExplanationRow, VerifiedInBrief

PLAIN: ExplanationRow = {
    "key": "a",
    "number": 0,
    "page": "items/a.html",
    "question": "?",
    "response": "Final answer: yes",
    "answer": "yes",
    "gold": "yes",
    "verdict": "correct",
    "target": "response",
    "tokens": 9,
    "finish": "stop",
    "foreign": False,
    "calibration": "applied",
    "image_share": 0.5,
    "dependence": 3.0,
    "response_dependence": 30.0,
    "inside": 0.4,
    "covered": 0.1,
    "met": True,
    "verification": None,
    "pictures": 1,
    "thumbnail": "",
    "evidence": [],
    "given": [],
}


def verified(inputs: int | None, changed: int = 0, draws: int = 8) -> VerifiedInBrief:
    return {"verdict": "…", "inputs": inputs, "answer": "no", "draws": draws, "changed": changed}


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        ({}, []),
        ({"response_dependence": 0.7}, []),
        ({"response_dependence": 0.69}, [IGNORES]),  # exp(-0.69) is a half
        ({"response_dependence": -2.0}, [IGNORES]),
        ({"response_dependence": None}, []),  # not measured
        ({"dependence": 0.0}, []),  # an answer may repeat the reasoning, which depends on the picture
        ({"met": False}, [OUTSIDE]),
        ({"met": None}, []),  # no boxes were given
        ({"finish": "length", "answer": None}, [CUT_OFF, NO_ANSWER]),
        ({"calibration": "not applied: no picture"}, [NOT_CALIBRATED]),
        ({"calibration": "off"}, []),
        ({"foreign": True}, [FOREIGN]),
        ({"verification": verified(2, changed=2)}, []),
        ({"verification": verified(2, changed=3)}, [UNSPECIFIC]),
        ({"verification": verified(None, draws=0)}, [NO_CHANGE]),
    ],
)
def test_facts_raise_flags(facts, flags):
    assert flags_of(PLAIN | facts) == flags
