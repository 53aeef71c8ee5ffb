"""docs/models.md says what the code says."""

from __future__ import annotations

import re

from support.readme import ROOT, table_of
from vtrace.lvlm.families.supported import FAMILIES, REFUSED

PAGE = "docs/models.md"


def names_in(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def test_the_page_lists_every_family_with_its_model_types_and_status():
    rows = table_of(PAGE, "family", "model types", "status")
    listed = [(row["family"], names_in(row["model types"]), row["status"]) for row in rows]
    assert listed == [(family.name, family.model_types, family.status) for family in FAMILIES]


def test_the_page_lists_every_refused_model_type_with_its_reason():
    rows = table_of(PAGE, "model type", "reason")
    assert {kind: row["reason"] for row in rows for kind in names_in(row["model type"])} == REFUSED


def test_the_page_names_files_that_exist():
    named = re.findall(r"`((?:tests|examples|src)/[\w/.]+)`", (ROOT / PAGE).read_text("utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
