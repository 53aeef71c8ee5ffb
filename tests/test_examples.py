"""Every file in examples/ runs as it is."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.real_parts import smollm2_cache

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
def test_jupyter_shows_the_viewer_and_nothing_in_red(tmp_path):
    """In a real kernel. What a library writes to stderr, such as a progress bar, would be red."""
    nbformat = pytest.importorskip("nbformat", reason="there is no nbclient: pip install nbclient ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="there is no nbclient: pip install nbclient ipykernel")
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    shown = [output["data"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(shown) == 2  # the attribution, and another target
    for data in shown:
        assert "<iframe" in data["text/html"]
        assert base64.b64decode(data["image/jpeg"]).startswith(b"\xff\xd8")


@pytest.mark.slow
def test_smollm2_is_explained(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "VTRACE_CACHE": str(smollm2_cache())}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "smollm2.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    question, response, _, *ranking = done.stdout.splitlines()
    assert "blue box" in response
    assert len(ranking) == 8
    words = re.findall(r"\w+", question)
    for line in ranking:
        share, word = line.split()
        assert 0 < float(share.removesuffix("%")) < 100
        assert word.strip("“”") in [*words, ".", "?"]
