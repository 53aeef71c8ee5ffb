"""The benches print what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_overhead_prints_ratios():
    command = [sys.executable, BENCH / "overhead.py", "--json", "--tokens", "384", "--repeats", "1"]
    (row,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    assert row["tokens"] == 384
    assert row["parameters"] >= 100e6
    for ratio in ("captured", "explanation", "all_tokens", "memory"):
        assert 0.2 < row[ratio] < 30  # the machine may be busy


def test_methods_prints_passes_and_memory():
    command = [
        sys.executable,
        BENCH / "methods.py",
        "--json",
        "--tokens",
        "384",
        "--repeats",
        "1",
        "--memory-tokens",
        "0",
    ]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["times"]
    assert {row["method"] for row in rows} >= {"rollout", "flowtracer", "ifr", "flashtrace", "attnlrp"}
    assert all(0.3 < row["passes"] < 50 for row in rows)


def test_the_engine_measures_what_plain_passes_do():
    command = [sys.executable, BENCH / "evaluate.py", "--json", "--examples", "test-1"]
    facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert facts["largest_difference"] < 1e-5
    assert facts["largest_difference_of_curves"] < 1e-5
    assert facts["ratio"] > 1  # the machine may be busy


def test_viewer_is_small_and_quick_at_1500_tokens(browser):  # the fixture skips where there is no Chromium
    command = [sys.executable, BENCH / "viewer.py", "--json", "--targets", "5"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (found["tokens"], found["response"]) == (1500, 500)
    assert found["megabytes"] <= found["limits"]["megabytes"]
    assert found["largest_share_error"] < 0.005
    assert found["retarget_processor_ms"] < found["limits"]["retarget_ms"]  # wall-clock time is the machine's
