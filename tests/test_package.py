"""The wheel has what users need, and works without the checkout. `make package-test` uses a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vtrace import __version__

pytest.importorskip("build", reason="there is no build: pip install build hatchling")
pytest.importorskip("hatchling", reason="there is no hatchling: pip install build hatchling")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def package_test(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import package_test

    return package_test


@pytest.mark.slow
def test_the_wheel_has_what_is_needed_and_is_used_from_where_it_was_installed(package_test, tmp_path):
    (wheel,) = package_test.build(tmp_path / "dist", "--wheel", "--no-isolation")
    package_test.check_wheel(wheel)
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", place, wheel]
    subprocess.run(pip, check=True)
    code = "import vtrace, vtrace.lvlm.checkpoint_source as c; print(vtrace.__file__, *c.EMBEDDED.values())"
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    for found in done.stdout.split():
        assert Path(found).is_relative_to(place)
        assert Path(found).exists()


@pytest.mark.parametrize(("file", "key"), [("pyproject.toml", "version ="), ("CITATION.cff", "version:")])
def test_all_files_have_one_version(file, key):
    lines = (ROOT / file).read_text("utf-8").splitlines()
    assert [line.split()[-1].strip('"') for line in lines if line.startswith(key)] == [__version__]
