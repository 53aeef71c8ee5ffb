"""What can be known without a model is refused before PyTorch or transformers is imported, and lists need neither."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from PIL import Image

# In one process, because starting Python is the slowest part. Whatever imports PyTorch shows in all later lines, too.
PROGRAM = """
import contextlib, io, json, sys
from vtrace.cli.main import main

for arguments in json.load(sys.stdin):
    sys.argv, out, err = ["vtrace", *arguments], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit) as code:
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    heavy = sorted({"torch", "transformers", "matplotlib"} & set(sys.modules))
    print(json.dumps([code, out.getvalue(), err.getvalue(), heavy]))
"""
REFUSED = {
    "there is no picture at gone.jpg": ["explain", "gone.jpg", "What is it?"],
    'ask something about photo.png: vtrace explain photo.png "What is this?"': ["explain", "photo.png"],
    "write: vtrace explain photo.png 'What is it?'": ["explain", "What is it?", "photo.png"],
    "write: vtrace verify photo.png 'Is it?'": ["verify", "Is it?", "photo.png"],
    "write: vtrace compare-models A B photo.png 'Is it?'": ["compare-models", "A", "B", "Is it?", "photo.png"],
    "put the question in quotes: vtrace explain photo.png 'What is it?'": ["explain", "photo.png", "What", "is", "it?"],
    "is an address, and VTrace downloads nothing": ["explain", "https://a.org/a.jpg", "What is it?"],
    "export it as JPEG, or convert it: sips": ["explain", "photo.heic", "What is it?"],
    "moving.gif has 3 frames, and a model sees one": ["explain", "moving.gif", "What is it?"],
    "the question is empty": ["explain", "photo.png", " "],
    "--response is empty": ["explain", "--response", ""],
    "page.pdf has to end in .html or .htm": ["explain", "--html", "page.pdf"],
    "figure.jpg has to end in .png, .pdf or .svg": ["explain", "--png", "figure.jpg"],
    "there is no folder nowhere": ["explain", "--json", "nowhere/a.json"],
    "did you mean answer?": ["explain", "--target", "awnser"],
    "there is no sentence 0": ["explain", "--target", "sentence 0"],
    "'tokens 9-2' is empty": ["explain", "--target", "tokens 9-2"],
    "the regular expression '[' is not valid": ["explain", "--target", "/[/"],
    "does not contain 'a cat'; it reads: 'A dog.'": ["explain", "--response", "A dog.", "--target", "a cat"],
    "has no 'Final answer:' line": ["explain", "--response", "A dog.", "--target", "answer"],
    "use one of: 'predictor', 'token'": ["explain", "--receivers", "all"],
    "cannot read region 'cup'": ["explain", "--region", "cup"],
    "there is no file boxes.json": ["explain", "--region", "boxes.json"],
    "the question does not contain 'zebra'": ["explain", "--segment", "zebra"],
    "there is no file gone.json": ["explain", "--trace", "gone.json"],
    "there is no example 'zebra'": ["verify", "--example", "zebra"],
    "HF_HUB_OFFLINE is set": ["explain", "--model", "no/such-model"],
    "'./gone' (there is no such folder)": ["explain", "--model", "./gone"],
    "neither a folder nor written like a hub id": ["explain", "--model", "a b"],
    "unknown dtype 'float8'": ["compare", "--dtype", "float8"],
    "unknown device 'quantum'": ["explain", "--device", "quantum"],
    "unknown device 'gpu:0'": ["evaluate", "--device", "gpu:0"],
    "unknown device 'cuda:x'": ["serve", "--device", "cuda:x"],
    "unknown method 'zebra'": ["compare", "--methods", "zebra"],
    "unknown method 'lion'": ["evaluate", "--methods", "lion"],
    "the alternative is empty": ["explain", "--against", ""],
    "unknown method 'bear'": ["verify", "--method", "bear"],
    "unknown benchmark 'zebra'": ["evaluate", "--benchmark", "zebra"],
    "target 'zebra' cannot be evaluated": ["evaluate", "--target", "zebra"],
    "setting is 'all'": ["verify", "--setting", "all"],
    "unknown benchmark 'lion'": ["trace", "--benchmark", "lion"],
    "there is no file or folder gone.jsonl": ["credit", "--traces", "gone.jsonl"],
    "unknown method 'wolf'": ["serve", "--methods", "wolf"],
    "unknown study 'zebra'": ["study", "zebra"],
}
if sys.platform != "darwin":
    REFUSED["cannot use device 'mps': it is part of a Mac"] = ["verify", "--device", "mps"]
if version("torch").endswith("+cpu"):
    REFUSED["+cpu was built for the CPU alone; try --device cpu"] = ["explain", "--device", "cuda"]
    REFUSED["cannot use device 'xpu:1'"] = ["evaluate", "--device", "xpu:1"]
LISTS = {
    "vtrace-ordered": ["methods"],
    "Qwen3-VL": ["models"],
    "MathVista": ["benchmarks"],
    "what centring": ["study", "list"],
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Exit code, stdout, stderr, and the heavy libraries that were imported, by the expected words."""
    folder = tmp_path_factory.mktemp("day-one")
    frames = [Image.new("RGB", (64, 64), colour) for colour in ("red", "green", "blue")]
    frames[0].save(folder / "photo.png")
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    (folder / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    cases = {**REFUSED, **LISTS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        input=json.dumps(list(cases.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(cases, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused_before_any_model_library_is_imported(answers, words):
    code, out, err, heavy = answers[words]
    assert heavy == []
    assert (code, out) in ((2, ""), (3, ""))
    assert err.startswith("vtrace: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize("words", LISTS)
def test_lists_need_no_model_library(answers, words):
    code, out, err, heavy = answers[words]
    assert (code, err, heavy) == (None, "", []) or (code, err, heavy) == (0, "", [])
    assert words in out
