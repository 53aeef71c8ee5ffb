"""One embedded model and one trace for the whole session, and small random models of the same class."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each of several processes
    os.environ["OMP_NUM_THREADS"] = "1"

from jaxtyping import install_import_hook

# Shapes are types on the narrow waist. They are checked in the tests, and cost nothing elsewhere.
SOURCE = Path(__file__).parents[1] / "src"
SHAPED = [path for path in SOURCE.rglob("*.py") if "from jaxtyping import" in path.read_text("utf-8")]
install_import_hook([".".join(p.relative_to(SOURCE).with_suffix("").parts) for p in SHAPED], "beartype.beartype")

import numpy as np
import pytest
import torch

import vtrace
from support.evaluating import PLAN
from support.opened import Opened, chromium
from support.own_questions import write_questions
from support.waiting import PATIENCE
from vtrace.benchmarks.registry import find_benchmark
from vtrace.cli import main as cli
from vtrace.faithfulness.run import evaluate
from vtrace.lvlm.model import Lvlm
from vtrace.methods.session import TraceSession
from vtrace.triage.plan import ExplanationPlan
from vtrace.triage.run import explain_benchmark
from vtrace.viewer.page import page


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same random numbers in every run, and in whatever order tests run."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def pinhole() -> Lvlm:
    return vtrace.load("pinhole")


@pytest.fixture(scope="session")
def trace(pinhole):
    return vtrace.trace(pinhole, vtrace.example())


@pytest.fixture(scope="session")
def attribution(pinhole, trace):
    return vtrace.attribute(pinhole, trace)


@pytest.fixture(scope="session")
def random_lvlm(pinhole) -> Lvlm:
    """A random Qwen3-VL in which heads do not fill the width, and projections have biases."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(7)
    config = pinhole.model.config.to_dict()
    config["text_config"] |= dict(
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        attention_bias=True,
        initializer_range=0.3,
    )
    config["text_config"]["rope_parameters"] |= dict(mrope_section=[4, 2, 2])
    config["vision_config"] |= dict(
        hidden_size=32, num_heads=2, intermediate_size=48, out_hidden_size=48, initializer_range=0.3
    )
    config.pop("dtype", None)
    model = Qwen3VLForConditionalGeneration._from_config(Qwen3VLConfig(**config), dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
    return dataclasses.replace(pinhole, name="random", model=model.eval())


@pytest.fixture(scope="session")
def random_trace(random_lvlm):
    return vtrace.trace(random_lvlm, vtrace.example("dev-3"), response="The red star is here.\nFinal answer: yes")


@pytest.fixture(scope="session")
def run_folder(pinhole, tmp_path_factory):
    """A finished run of three examples."""
    folder = tmp_path_factory.mktemp("run")
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, folder, limit=3)
    return folder


@pytest.fixture(scope="session")
def explained(pinhole, tmp_path_factory):
    """The folder of a user's explained questions, some of which could not be."""
    folder = tmp_path_factory.mktemp("explained")
    explain_benchmark(pinhole, find_benchmark(str(write_questions(folder))), ExplanationPlan(), folder / "out")
    return folder / "out"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, which is really full or read-only. Only root can have one."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `vtrace …` in this process: exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["vtrace", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return call


@pytest.fixture(scope="module", params=["pinhole", "random_lvlm"])
def session(request) -> TraceSession:
    """A trace in front of the trained model, and one in front of the awkward random one."""
    lvlm = request.getfixturevalue(request.param)
    trace = request.getfixturevalue("trace" if request.param == "pinhole" else "random_trace")
    return TraceSession.open(lvlm, trace)


@pytest.fixture(scope="module")
def pinhole_session(pinhole, trace) -> TraceSession:
    return TraceSession.open(pinhole, trace)


@pytest.fixture(scope="session")
def browser():
    """A real Chromium without a network."""
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no playwright: pip install playwright")
    place = chromium()
    if place is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set VTRACE_CHROMIUM to its path")
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as driver:
        # as root, which is what containers of CI are, Chromium starts without its sandbox only
        options = [*flags, "--disable-sync", "--no-sandbox"]
        opened = driver.chromium.launch(executable_path=place, args=options, timeout=1000 * PATIENCE)
        yield opened
        opened.close()


@pytest.fixture
def reader(browser, tmp_path):
    """Open attributions in Chromium; afterwards nothing may have failed, and nothing been asked of a network."""
    opened: list[Opened] = []

    def read(*results, link: str = "", title: str = "", remarks=None, **options) -> Opened:
        opened.append(Opened(browser, page(results, title, remarks), tmp_path, link, **options))
        return opened[-1]

    yield read
    for one in opened:
        one.context.close()
        assert one.complaints == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in one.requests), one.requests
