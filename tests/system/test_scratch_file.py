"""Numbers in a file that has no name: it holds what was written, and is gone with its process, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch

from vtrace.errors import InputError
from vtrace.system.scratch_file import ScratchFile, scratch_folder

MILLION = 1_000_000


def test_numbers_survive_their_memory(tmp_path):
    file = ScratchFile(MILLION, tmp_path)
    numbers = file.numbers
    assert not numbers.any()
    numbers[:] = torch.arange(MILLION)
    file.release(1000, MILLION)
    file.release(3, 5)
    assert torch.equal(numbers, torch.arange(MILLION).float())
    assert os.listdir(tmp_path) == []


def test_released_numbers_need_no_memory(tmp_path):
    from vtrace.system.peak_memory import memory_in_use

    file = ScratchFile(50 * MILLION, tmp_path)
    file.numbers.fill_(1.0)
    full = memory_in_use(torch.device("cpu"))
    file.release(0, 50 * MILLION)
    assert full - memory_in_use(torch.device("cpu")) > 150 * MILLION or not sys.platform.startswith("linux")


def child(folder, code: str) -> subprocess.Popen:
    imports = "from pathlib import Path\nfrom vtrace.system.scratch_file import ScratchFile\n"
    script = f"{imports}folder = Path({str(folder)!r})\n{code}"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("ending", ["kill", "exception"])
def test_nothing_is_left_after_a_kill_or_an_exception(tmp_path, ending):
    held = child(
        tmp_path,
        "file = ScratchFile(1000, folder)\nfile.numbers.fill_(1)\nprint('ready', flush=True)\n"
        + ("input()" if ending == "kill" else "import sys; sys.stderr = None; raise RuntimeError"),
    )
    assert held.stdout.readline() == "ready\n"
    if ending == "kill":
        os.kill(held.pid, signal.SIGKILL)
    held.communicate()
    assert held.returncode != 0
    assert os.listdir(tmp_path) == []


def test_a_disk_without_room_is_one_line_before_anything_is_written(tmp_path):
    done = child(
        tmp_path,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from vtrace.errors import InputError\n"
        "try:\n    ScratchFile(1000, folder)\nexcept InputError as error:\n    print(error)",
    )
    out = done.communicate()[0]
    assert out.startswith(f"cannot reserve 4 kB in {tmp_path}: ")
    assert out.count("\n") == 1
    assert "free some disk space" in out
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"^cannot reserve 40 B in .*no: [^\n]*$"):
        ScratchFile(10, tmp_path / "no")


def test_files_go_to_tmpdir_or_to_a_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert scratch_folder() == tmp_path
