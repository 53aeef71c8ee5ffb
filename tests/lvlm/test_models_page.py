"""docs/reference/models.md and docs/how-to/new-family.md say what the code says."""

from __future__ import annotations

from dataclasses import fields

from support.pages import DOCS, names_in, table_under, tables_of
from vtrace.lvlm.families.family import Family
from vtrace.lvlm.families.refused import REFUSED
from vtrace.lvlm.families.supported import FAMILIES

PAGE = "reference/models.md"


def test_the_page_lists_every_family_with_its_model_types_and_status():
    listed = [(name, tuple(names_in(types)), status) for name, types, status in table_under(PAGE, "family")]
    assert listed == [(family.name, family.model_types, family.status) for family in FAMILIES]


def test_the_page_lists_every_refused_model_type_with_its_reason():
    listed = {kind: reason for kinds, reason in table_under(PAGE, "model type") for kind in names_in(kinds)}
    assert listed == REFUSED


def test_the_guide_describes_every_field_of_a_family():
    described = [
        name for table in tables_of(DOCS / "how-to/new-family.md") for row in table.rows for name in names_in(row[0])
    ]
    assert sorted(described) == sorted(field.name for field in fields(Family))
