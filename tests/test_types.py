"""What users of the library see: real types, from the installed package, by a real type checker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """
import vtrace

lvlm = vtrace.load("pinhole")
trace = vtrace.trace(lvlm, vtrace.example())
attribution = vtrace.attribute(lvlm, trace, "answer", gamma=0.5)
comparison = vtrace.compare(lvlm, trace, ["vtrace", "ifr"])
reveal_type(lvlm)
reveal_type(trace)
reveal_type(attribution)
reveal_type(attribution.top(3)[0].score)
reveal_type(attribution.save("a.html"))
reveal_type(comparison["ifr"])
reveal_type(vtrace.read("a.json"))
reveal_type(trace.kinds[0])
trace.positions("picture")
"""
SEEN = [
    "vtrace.lvlm.model.Lvlm",
    "vtrace.types.Trace",
    "vtrace.attribution.result.Attribution",
    "float",
    "pathlib.Path",
    "vtrace.attribution.result.Attribution",
    "vtrace.types.Trace | vtrace.attribution.result.Attribution",
    "Literal['image'] | Literal['question'] | Literal['template'] | Literal['response']",
]


@pytest.mark.slow
def test_a_users_script_is_checked_against_real_types(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [re.sub(r"\bbuiltins\.", "", text) for text in revealed] == SEEN, done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, errors
    assert "picture" in errors[0]


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src" / "vtrace" / "py.typed").exists()
