"""A verification as JSON, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

from .verification import (
    ComparedSets,
    FaithfulnessCurve,
    InputCount,
    Verification,
    VerifiedSide,
    VerifiedStep,
)

VERIFICATION_SCHEMA = "vtrace.verification/1"


def verification_document(verification: Verification) -> dict[str, Any]:
    """Every field of `Verification` under its own name, and the verdict."""
    fields = dataclasses.asdict(verification)
    return {"schema": VERIFICATION_SCHEMA, "answer": fields.pop("answer"), "verdict": verification.verdict, **fields}


def read_verification(document: dict[str, Any]) -> Verification:
    """The verification in a document; raises KeyError or TypeError for a damaged one."""
    fields = {key: value for key, value in document.items() if key not in ("schema", "verdict")}
    return Verification(
        **{
            **fields,
            "count": InputCount(**fields["count"]),
            "order": tuple(map(tuple, fields["order"])),
            "necessary": _side(fields["necessary"]),
            "sufficient": _side(fields["sufficient"]),
            "random": ComparedSets(**fields["random"]),
            "lowest": ComparedSets(**fields["lowest"]),
            "insertion": _curve(fields["insertion"]),
            "deletion": _curve(fields["deletion"]),
            "warnings": tuple(fields["warnings"]),
        }
    )


def _side(fields: dict[str, Any]) -> VerifiedSide:
    count = None if fields["count"] is None else InputCount(**fields["count"])
    return VerifiedSide(
        fields["inputs"], count, fields["answer"], tuple(VerifiedStep(**step) for step in fields["curve"])
    )


def _curve(fields: dict[str, Any]) -> FaithfulnessCurve:
    return FaithfulnessCurve(**{**fields, "response": tuple(fields["response"]), "mass": tuple(fields["mass"])})
