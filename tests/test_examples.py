"""Every file in examples/ runs as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.real_parts import gguf_wheel, smollm2_wheel

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_below():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {"quickstart.ipynb", "smollm2.py"}


def test_the_notebook_runs(capsys):
    names: dict = {}
    shown = []
    cells = json.loads((EXAMPLES / "quickstart.ipynb").read_text("utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            *statements, last = "".join(cell["source"]).splitlines()
            exec("\n".join(statements), names)
            shown.append(eval(last.partition("  #")[0], names))
    assert "Final answer: " in capsys.readouterr().out
    assert names["attribution"]._repr_html_().startswith("<")
    _, attribution, sentence, ranking = shown
    assert attribution is names["attribution"]
    assert sentence.target.name == "sentence 1"
    assert len(ranking) == 5
    assert all(0 < score <= 1 for _, score in ranking)


@pytest.mark.slow
def test_smollm2_is_converted_and_explained(tmp_path):
    wheel, gguf = smollm2_wheel(), gguf_wheel()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(gguf)])}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "smollm2.py", wheel, tmp_path / "smollm2"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "smollm2" / "model.safetensors").stat().st_size > 400e6
    question, response, _, *ranking = done.stdout.splitlines()
    assert "blue box" in response
    assert len(ranking) == 8
    words = re.findall(r"\w+", question)
    for line in ranking:
        share, word = line.split()
        assert 0 < float(share.removesuffix("%")) < 100
        assert word.strip("“”") in [*words, ".", "?"]
