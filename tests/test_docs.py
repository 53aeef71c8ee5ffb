"""Documents that cannot lie: the command-line reference is what the commands print, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_the_command_line_reference_is_current():
    printed = subprocess.run([sys.executable, ROOT / "docs" / "cli.py"], capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "cli.md").read_text() == printed.stdout, "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_page_has_a_gap(page):
    assert "<!--" not in page.read_text()
