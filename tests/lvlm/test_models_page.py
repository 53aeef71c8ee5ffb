"""docs/reference/models.md says what the code says."""

from __future__ import annotations

from support.pages import names_in, table_under
from vtrace.lvlm.families.refused import REFUSED
from vtrace.lvlm.families.supported import FAMILIES

PAGE = "reference/models.md"


def test_the_page_lists_every_family_with_its_model_types_and_status():
    listed = [(name, tuple(names_in(types)), status) for name, types, status in table_under(PAGE, "family")]
    assert listed == [(family.name, family.model_types, family.status) for family in FAMILIES]


def test_the_page_lists_every_refused_model_type_with_its_reason():
    listed = {kind: reason for kinds, reason in table_under(PAGE, "model type") for kind in names_in(kinds)}
    assert listed == REFUSED
