"""docs/reference/documents.md lists the fields that are written."""

from __future__ import annotations

import re

import vtrace
from support.pages import ROOT, tables_of
from vtrace.report.documents import attribution_document, comparison_document, trace_document

PAGE = ROOT / "docs" / "reference" / "documents.md"


def fields_under(heading: str) -> list[str]:
    """The first column of the table below a heading."""
    text = PAGE.read_text("utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    (table,) = (t for t in tables_of(PAGE) if t.heads[0] == "field" and f"| {' | '.join(t.rows[0])} |" in section)
    return [name for row in table.rows for name in re.findall(r"`(\w+)`", row[0])]


def test_attributions(attribution):
    assert set(fields_under("Attribution")) == attribution_document(attribution).keys()


def test_traces(trace):
    assert set(fields_under("Trace")) == trace_document(trace).keys()


def test_comparisons(pinhole, trace):
    comparison = vtrace.compare(pinhole, trace, ["random", "position"])
    assert set(fields_under("Comparison")) == comparison_document(comparison).keys()
