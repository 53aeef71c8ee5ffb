"""The results page: its judgements follow from the numbers, and it can be made from a small run."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from vtrace.faithfulness.statistics import Summary
from vtrace.faithfulness.tables import Line

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def results(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(DOCS)
    module = importlib.import_module("results")
    monkeypatch.setattr(module, "FIRST", ("vtrace", "vtrace-ordered", "ifr", "loo", "random"))
    monkeypatch.setattr(module, "MAIN", (*module.FIRST, "position"))
    monkeypatch.setattr(module, "METHODS", dict.fromkeys((*module.MAIN, "centre")))
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


@pytest.mark.parametrize(
    ("low", "high", "up", "verdict"),
    [(0.1, 0.2, True, "better"), (-0.2, -0.1, True, "worse"), (-0.1, 0.1, True, "level"), (0.1, 0.2, False, "worse")],
)
def test_a_method_is_better_only_where_the_interval_says_so(results, low, high, up, verdict):
    cell = Summary(0.5, 0.4, 0.6, difference=(low + high) / 2, difference_low=low, difference_high=high)
    line = Line("response", "all", "image", "RISE ins", up, 10, 0, {"ifr": cell}, {})
    assert results.against(line, "ifr") == verdict


def test_a_page_from_a_small_run(results, tmp_path):
    args = Namespace(
        models=["pinhole"], items=2, others=1, slowest=0, scattered=2, study_items=1, studies=[], workers=1,
        work=tmp_path / "work",
    )  # fmt: skip
    results.measure(args)
    text = results.page(args)
    assert "2 test examples" in text
    assert "The benchmark" in text
    assert "Target answer, joint setting: VTrace" in text
    assert "| vtrace | vtrace-ordered | ifr | loo | random |\n" in text
    assert "### Further quick methods" in text
    assert "| metric | vtrace | position |\n" in text
    assert "### All methods, 1 examples" in text
    assert "| loo | random | position | centre |\n" in text
    assert "| | vtrace, Pinhole (Qwen3-VL) | vtrace-ordered, Pinhole (Qwen3-VL) |\n" in text
    assert re.search(r"\| vtrace \|  \| \d+ / \d+ / \d+ \|\n", text)
    assert re.search(r"\| loo \| \d+ / \d+ / \d+ \| \d+ / \d+ / \d+ \|\n", text)
    assert "### By how many patches show the evidence" in text
    assert "Methods within 0.01 of the best" in text
    assert "The first 2 test examples whose evidence are 5 things or more" in text
    assert "Of 15 pairs of methods, image insertion tells apart" in text
    assert "**Whole responses, by RISE**: VTrace " in text


def test_workers_end_with_their_parent(tmp_path):
    """A worker that would sleep for a minute is gone soon after its parent was killed."""
    script = tmp_path / "parent.py"
    script.write_text(
        f"""
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

sys.path.insert(0, {str(DOCS)!r})
from results import be_worker


def work():
    print(os.getpid(), flush=True)
    time.sleep(60)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), be_worker) as pool:
        pool.submit(work).result()
"""
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker went on without its parent")
