"""Hostile inputs: every one ends in success, or in one line with exit code 2 or 3, and leaves nothing behind.

The number of inputs is 2,000, or what VTRACE_HOSTILE says (`make test-hostile`: 10,000).
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from hostile.corpus import HostileCase, case
from vtrace.cli import main as cli
from vtrace.report.documents import attribution_document
from vtrace.report.trace_document import trace_document

CASES = int(os.environ.get("VTRACE_HOSTILE", "2000"))
PARTS = 8  # of the corpus, so that several processes can share it
SAMPLE = CASES // 200  # through real processes
CPU_SECONDS = 20.0  # of processor time: how busy the machine is does not matter
GIVEN_UP = 3 * CPU_SECONDS
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def documents(pinhole, attribution):
    found = (trace_document(attribution.trace), attribution_document(attribution))
    return [json.loads(json.dumps(document)) for document in found]


@pytest.fixture
def one_model(pinhole, monkeypatch):
    """The embedded model is loaded once; every other name is loaded as usual."""
    from vtrace.lvlm import load as module

    load = module.load

    def plain(name, dtype, device) -> bool:
        return name == "pinhole" and dtype is None and device is None

    monkeypatch.setattr(
        module,
        "load",
        lambda name="pinhole", dtype=None, device=None, **others: (
            pinhole if plain(name, dtype, device) and not any(others.values()) else load(name, dtype, device, **others)
        ),
    )


class GivenUp(BaseException):
    """A case has used far too much processor time."""


@contextmanager
def limited() -> Iterator[None]:
    """Let nothing hang: after some processor time, whatever runs is stopped."""

    def stop(*_: object) -> None:
        raise GivenUp

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, GIVEN_UP)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Ended:
    """How a case ended: exit code, what was printed, and the processor time it took."""

    def __init__(self, code: int, out: str, err: str, seconds: float):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds


def in_process(hostile: HostileCase) -> Ended:
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    began = time.process_time()
    with (
        mock.patch.object(sys, "argv", ["vtrace", *hostile.arguments]),
        mock.patch.object(sys, "stdout", streams[0]),
        mock.patch.object(sys, "stderr", streams[1]),
        mock.patch.dict(os.environ, hostile.environment),
    ):
        try:
            with limited():
                cli.main()
        except SystemExit as stop:
            code = stop.code
        except GivenUp:
            code = None
    out, err = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in streams)
    return Ended(-1 if code is None else code, out, err, time.process_time() - began)


def in_a_process(hostile: HostileCase) -> Ended:
    command = [sys.executable, "-m", "vtrace.cli", *(os.fsencode(argument) for argument in hostile.arguments)]
    environment = {**os.environ, **hostile.environment, "OMP_NUM_THREADS": "1"}
    seconds = (int(GIVEN_UP), int(GIVEN_UP))
    done = subprocess.run(
        command,
        capture_output=True,
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, seconds),
    )
    return Ended(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), 0.0)


def judge(hostile: HostileCase, ended: Ended) -> str:
    """What is wrong with the way in which a case ended; empty if nothing is."""
    if "Traceback" in ended.err + ended.out:
        return "a traceback"
    if ended.code not in (0, 2, 3):
        return f"exit code {ended.code}: {ended.err[-300:]}"
    told = ended.out if hostile.arguments[0] == "doctor" and not ended.err else ended.err.strip()
    if ended.code and (not told or len(ended.err.splitlines()) > 1):
        return f"{len(ended.err.splitlines())} lines: {ended.err[:300]!r}"
    if ended.seconds > CPU_SECONDS:
        return f"{ended.seconds:.0f} s"
    return ""


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".vtrace-*")]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_input_ends_well(part, documents, one_model, tmp_path, monkeypatch, capsys):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    wrong, kinds = [], Counter()
    for seed in range(part, CASES, PARTS):
        folder = tmp_path / "case"
        folder.mkdir()
        hostile = case(seed, folder, documents)
        ended = in_process(hostile)
        problem = judge(hostile, ended) or ", ".join([*leftovers(folder), *os.listdir(temporary)])
        kinds[hostile.kind, ended.code] += 1
        if problem:
            wrong.append(f"{seed} {hostile.kind}: {problem} {[a[:80] for a in hostile.arguments]}")
            shutil.rmtree(temporary)
            temporary.mkdir()
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\n{sum(kinds.values())} hostile inputs: {dict(sorted(kinds.items()))}")
    assert not wrong, f"{len(wrong)} of {sum(kinds.values())}:\n" + "\n".join(wrong[:40])


def test_a_sample_of_them_as_real_processes(documents, tmp_path):
    for seed in random.Random(0).sample(range(CASES), SAMPLE):
        folder = tmp_path / str(seed)
        folder.mkdir()
        hostile = case(seed, folder, documents)
        arguments = [
            argument for argument in hostile.arguments if "\ud800" not in argument
        ]  # no system passes these on
        ended = in_a_process(hostile._replace(arguments=arguments))
        assert not judge(hostile, ended), (seed, hostile.arguments, ended.err)
        assert not leftovers(folder)
