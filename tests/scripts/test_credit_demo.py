"""The demo of credit trains, and prints accuracy before and after."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="there is no TRL: pip install 'vtrace-attribution[trl]'")

SCRIPT = Path(__file__).parents[2] / "scripts" / "credit_demo.py"


@pytest.mark.slow
def test_the_demo_prints_accuracy_before_and_after():
    command = [sys.executable, SCRIPT, "--start", "noisy", "--steps", "1", "--questions", "4"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"step +1 of 1 +reward [\d.]+ +mean weight [\d.]+", printed)
    assert len(re.findall(r"^accuracy (?:before|after): +[\d.]+  \(95 % interval", printed, re.MULTILINE)) == 2
    assert re.search(r"^gain: [+-][\d.]+ .*4 asked\)$", printed, re.MULTILINE)
