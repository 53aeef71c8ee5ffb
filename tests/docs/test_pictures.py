"""Every picture of the documentation is made by a script, shown by a page, and small."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from PIL import Image

import vtrace
from support.pages import DOCS, ROOT
from vtrace.viewer.page import page

MAKERS = {  # the first pattern that fits
    "assets/hero.*": "scripts/hero.py",
    "gallery/*.jpg": "scripts/gallery.py",
    "reference/*.png": "scripts/viewer_screenshot.py",
    "results/credit-experiment.png": "scripts/credit_report.py",
    "results/*.png": "scripts/results_page.py",
}
PICTURES = [path for path in DOCS.rglob("*") if path.suffix in (".png", ".jpg", ".webp", ".gif", ".svg")]
SHOWN = {
    (path.parent / link).resolve()
    for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
    for link in re.findall(r'(?:\]\(|src="|srcset=")([^)"\s#]+)', path.read_text("utf-8"))
}


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("picture", PICTURES, ids=name_of)
def test_a_picture_is_made_by_a_script_and_shown(picture):
    maker = next((maker for pattern, maker in MAKERS.items() if fnmatch(name_of(picture), pattern)), None)
    assert maker, "no script makes it"
    assert (ROOT / maker).exists(), maker
    assert picture.resolve() in SHOWN, "no page shows it"


def test_the_hero_moves_and_has_a_still():
    moving, still = DOCS / "assets" / "hero.webp", DOCS / "assets" / "hero.png"
    assert moving.stat().st_size < 1_500_000
    with Image.open(moving) as film, Image.open(still) as frame:
        assert film.n_frames > 4
        assert frame.size == film.size
    for page_of_it in ("README.md", "docs/index.md"):
        assert 'media="(prefers-reduced-motion: reduce)" srcset=' in (ROOT / page_of_it).read_text("utf-8")


def test_the_gallery_holds_twelve_small_explanations_of_the_model_it_names():
    documents = sorted((DOCS / "gallery").glob("*.json"))
    assert len(documents) == 12
    text = (DOCS / "gallery" / "index.md").read_text("utf-8")
    for path in documents:
        assert path.stat().st_size < 150_000
        attribution = vtrace.read(path)
        assert f"12 answers of **{attribution.trace.model}**" in text
        assert f"**[{attribution.trace.question}]({path.stem}.html)**" in text
        assert attribution.verification.verdict in text
        assert page([attribution]).startswith("<!doctype html>")
