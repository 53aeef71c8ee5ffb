"""Documents that cannot lie: the command-line reference is what the commands print, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vtrace.methods.registry import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_command_line_reference_is_current():
    command = [sys.executable, ROOT / "scripts" / "cli_reference.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "cli.md").read_text() == printed.stdout, "run: make docs"


def test_every_method_stands_in_the_index_as_it_is_in_the_code_with_its_options_on_its_page():
    index = (ROOT / "docs" / "methods" / "README.md").read_text()
    for name, method in METHODS.items():
        slow = " †" if method.speed == "slow" else ""
        row = re.search(rf"\| `{name}`{slow} \| \[\w+\]\((\w+\.md)\) \| (.*) \|\n", index)
        assert row, name
        assert row[2] == f"{method.about} | {method.cost} | {method.status}"
        page = (ROOT / "docs" / "methods" / row[1]).read_text()
        assert all(f"`{option}`" in page for option in method.options), name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_page_has_a_gap(page):
    assert "<!--" not in page.read_text()
