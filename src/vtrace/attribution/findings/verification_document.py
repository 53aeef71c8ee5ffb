"""A verification as JSON, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...system.typed_json import as_typed
from ...types import Trace
from .verification import Verification

VERIFICATION_SCHEMA = "vtrace.verification/1"


def verification_document(verification: Verification) -> dict[str, Any]:
    """Every field of `Verification` under its own name, and the verdict."""
    fields = dataclasses.asdict(verification)
    return {"schema": VERIFICATION_SCHEMA, "answer": fields.pop("answer"), "verdict": verification.verdict, **fields}


def read_verification(document: dict[str, Any], trace: Trace) -> Verification:
    """The verification on this trace; raises ValueError for a damaged one."""
    fields = {key: value for key, value in document.items() if key not in ("schema", "verdict")}
    found, inputs = as_typed(Verification, fields, "verification"), set(trace.inputs)
    if not all(positions and inputs.issuperset(positions) for positions in found.order):
        raise ValueError("verification.order has positions that cannot be hidden")
    steps = (*found.necessary.curve, *found.sufficient.curve)
    if not all(0 <= step.inputs <= len(found.order) for step in steps):
        raise ValueError("verification has steps with more inputs than there are")
    return found
