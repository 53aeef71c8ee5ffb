"""The results page can be made from a small run, and workers end with their parent."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.waiting import wait_until

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def scripts(monkeypatch):
    """Import a module of the scripts."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module


@pytest.mark.slow
def test_a_page_from_a_small_run(scripts, tmp_path):
    first = ("vtrace", "vtrace-ordered", "ifr", "loo", "random")
    quick = (*first, "position")
    plan = scripts("results_plan").ResultsPlan(
        models=["pinhole"],
        first=first,
        quick=quick,
        every=(*quick, "centre"),
        studies=[],
        items=2,
        others=1,
        slowest=0,
        scattered=2,
        study_items=1,
        work=tmp_path / "work",
        pages=tmp_path / "pages",
    )
    scripts("results").measure(plan)
    text = "\n".join(page.read_text() for page in scripts("results_page").write_pages(plan))
    assert "2 test examples" in text
    assert "The benchmark" in text
    assert "Target answer, joint setting: VTrace" in text
    assert "| vtrace | vtrace-ordered | ifr | loo | random |\n" in text
    assert "## Other quick methods" in text
    assert "| metric | vtrace | position |\n" in text
    assert "## More methods, 1 examples" in text
    assert "| loo | random | position | centre |\n" in text
    assert "| | vtrace, Pinhole | vtrace-ordered, Pinhole |\n" in text
    assert re.search(r"\| vtrace \|  \| \d+ / \d+ / \d+ \|\n", text)
    assert re.search(r"\| loo \| \d+ / \d+ / \d+ \| \d+ / \d+ / \d+ \|\n", text)
    assert "## By number of evidence patches" in text
    assert "Methods within 0.01 of the best" in text
    assert "The first 2 test examples with at least five evidence objects." in text
    assert "Of 15 pairs of methods, image insertion distinguishes" in text
    assert "**Whole responses, by RISE**: VTrace " in text


def test_a_model_that_is_not_measured_again_stays_on_the_first_page(scripts, tmp_path):
    index = scripts("results_index")
    before = json.loads((SCRIPTS.parent / "docs" / "results" / index.OVERVIEW).read_text())
    (tmp_path / index.OVERVIEW).write_text(json.dumps(before))
    for model in before:
        (tmp_path / f"{model}-studies.md").touch()
    page = index.index_page(tmp_path, {})
    shown = (SCRIPTS.parent / "docs" / "results" / "index.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("| Pinhole")] == [
        line for line in shown.splitlines() if line.startswith("| Pinhole")
    ]
    assert json.loads((tmp_path / index.OVERVIEW).read_text()) == before


def test_pages_of_studies_need_no_run_and_leave_the_other_pages_alone(scripts, tmp_path):
    place = tmp_path / "work" / "pinhole" / "studies" / "gamma"
    place.mkdir(parents=True)
    (place / "gamma.md").write_text("# gamma\n\nWeights.\n\n![Weights](gamma.png)\n\n| target | items |\n\nAll.\n")
    (place / "gamma.png").write_bytes(b"plot")
    plan = scripts("results_plan").ResultsPlan(work=tmp_path / "work", pages=tmp_path / "pages")
    (page,) = scripts("results_page").write_study_pages(plan)
    assert "## gamma\n\nWeights.\n\n![gamma](pinhole-gamma.png)\n" in page.read_text()
    assert {path.name for path in plan.pages.iterdir()} == {"pinhole-studies.md", "pinhole-gamma.png"}


def test_the_plan_measures_every_example_once(scripts):
    plan = scripts("results_plan").ResultsPlan(items=20, scattered=8)
    numbers = plan.scattered_numbers()
    assert len(numbers) == 8
    assert set(numbers) == {n for n in numbers if n < 20} | set(plan.part("scattered", "pinhole").numbers)
    assert len(plan.main("pinhole")) == len(set(plan.main("pinhole"))) > len(plan.first)
    assert "heta" not in plan.part("others", "pinhole").methods
    assert plan.study_limit("efficiency") == 2


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path):
    """A worker that would sleep for a day is gone after its parent was killed."""
    script = tmp_path / "parent.py"
    script.write_text(
        f"""
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

sys.path.insert(0, {str(SCRIPTS)!r})
from results import be_worker


def work():
    print(os.getpid(), flush=True)
    time.sleep(24 * 3600)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), be_worker) as pool:
        pool.submit(work).result()
"""
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    try:
        wait_until(lambda: not is_running(worker), "the end of the worker")
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
