"""Files: complete or not there, written by one process at a time, with errors that say what to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from vtrace.errors import InputError
from vtrace.system.files import check_writable, locked, read_json, write_atomically

HOLDS_THE_LOCK = """
import sys
from pathlib import Path
from vtrace.system.files import locked
lock = locked(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path):
    path = tmp_path / "new" / "run.sqlite"
    with locked(path), pytest.raises(InputError, match=r"another process is writing to .*run\.sqlite; wait for it"):
        locked(path)
    locked(path).close()


def test_a_lock_ends_with_its_process(tmp_path):
    path = tmp_path / "run.sqlite"
    command = [sys.executable, "-c", HOLDS_THE_LOCK, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match="another process"):
            locked(path)
        process.kill()
    locked(path).close()


def test_a_lock_that_cannot_be_written_names_its_file(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"cannot write .*run\.sqlite: .*; choose another --out"):
        locked(tmp_path / "file" / "run.sqlite")


def test_a_file_is_replaced_only_when_it_is_complete(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")

    def write(temporary):
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".html"
        temporary.write_text("new")
        assert path.read_text() == "old"

    assert write_atomically(path, write) == path
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")], ids=["stopped", "full"])
def test_nothing_half_written_stays_behind(tmp_path, error):
    (tmp_path / "kept.txt").write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise error

    with pytest.raises((KeyboardInterrupt, InputError)) as raised:
        write_atomically(tmp_path / "kept.txt", fail)
    assert error is KeyboardInterrupt or "No space left on device; choose another place" in str(raised.value)
    assert (tmp_path / "kept.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_folder_that_does_not_exist_is_refused_before_and_while_writing(tmp_path):
    path = tmp_path / "none" / "a.json"
    with pytest.raises(InputError, match="there is no folder"):
        check_writable(path)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(path, lambda temporary: None)
    with pytest.raises(InputError, match="is a folder; give a file name"):
        check_writable(tmp_path)
    check_writable(tmp_path / "a.json")


def test_json_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(InputError, match="there is no file"):
        read_json(path, "a chat")
    path.write_text("{")
    with pytest.raises(InputError, match=r"a\.json is not a chat"):
        read_json(path, "a chat")
    path.write_text("[1]")
    assert read_json(path, "a chat") == [1]
