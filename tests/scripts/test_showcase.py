"""The hero and the gallery of the documentation can be made again: with the viewer and the web application of today."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PIL import Image

import vtrace
from support.opened import chromium
from support.pages import ROOT

pytestmark = pytest.mark.slow


def run_script(name: str, *arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / name, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.browser
@pytest.mark.skipif(chromium() is None, reason="there is no Chromium")
def test_the_hero_is_recorded_from_the_web_application(tmp_path):
    run_script("hero.py", "--out", tmp_path, "--chromium", chromium())
    with Image.open(tmp_path / "hero.webp") as film, Image.open(tmp_path / "hero.png") as still:
        assert film.n_frames == 7
        assert film.size == still.size


def test_the_gallery_names_the_model_that_it_shows(tmp_path):
    run_script("gallery.py", "--model", "pinhole-internvl", "--count", 1, "--out", tmp_path)
    text = (tmp_path / "index.md").read_text("utf-8")
    assert "**pinhole-internvl**" in text
    shown = vtrace.read(tmp_path / "01.json")
    assert shown.trace.model == "pinhole-internvl"
    assert shown.verification.verdict in text
    assert (tmp_path / "01.jpg").stat().st_size < 50_000
