"""Files: complete or not there, written by one process at a time, with errors that say what to do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest

from support.waiting import PATIENCE
from vtrace.errors import InputError
from vtrace.system.files import check_writable, locked, write_atomically
from vtrace.system.json_reader import read_json

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


def test_a_link_stays_a_link_and_its_file_gets_the_new_contents(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "page.html", tmp_path / "page.html"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, lambda file: file.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    target.unlink()  # the link now points to nothing
    write_atomically(link, lambda file: file.write_text("made"))
    assert target.read_text() == "made"


def test_a_device_stays_a_device(tmp_path):
    check_writable(null := tmp_path / "null.json")
    os.mkfifo(null)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(null.read_bytes()))
    reader.start()
    check_writable(null)
    write_atomically(null, lambda file: file.write_text("through the pipe"))
    reader.join(PATIENCE)
    assert read == [b"through the pipe"]
    assert stat.S_ISFIFO(null.stat().st_mode)
    assert os.listdir(tmp_path) == ["null.json"]
    write_atomically("/dev/null", lambda file: file.write_text("gone"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


SAVES = """
import sys
from vtrace.system.files import check_writable, write_atomically
from pathlib import Path
check_writable(Path(sys.argv[1]))
write_atomically(sys.argv[1], lambda file: file.write_text("new"))
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "{folder}/link"])
def test_the_files_that_a_process_was_started_with_are_written_to_and_not_replaced(tmp_path, name):
    (tmp_path / "link").symlink_to("/dev/stdout")
    command = [sys.executable, "-c", SAVES, name.format(folder=tmp_path)]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"new"
    log = tmp_path / "log"
    log.write_text("kept ")
    with log.open("a") as appended:
        subprocess.run(command, stdout=appended, check=True)
    assert log.read_text() == "kept new"


def test_links_that_lead_nowhere_are_refused_before_any_work(tmp_path):
    loop, lost = tmp_path / "loop.json", tmp_path / "lost.json"
    loop.symlink_to(loop)
    lost.symlink_to("none/file.json")
    for save in (check_writable, lambda path: write_atomically(path, lambda file: file.write_text("text"))):
        with pytest.raises(InputError, match="Too many levels of symbolic links"):
            save(loop)
        with pytest.raises(InputError, match=r"there is no folder .*none|No such file or directory"):
            save(lost)
    assert loop.is_symlink()


def test_a_full_device_is_one_line():
    with pytest.raises(InputError, match="cannot write /dev/full: No space left on device"):
        write_atomically("/dev/full", lambda file: file.write_text("too much"))


def test_new_files_honour_the_umask_and_old_ones_keep_their_permissions(tmp_path):
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("")
    old.chmod(0o640)
    before = os.umask(0o077)
    try:
        for path in (new, old):
            write_atomically(path, lambda file: file.write_text("text"))
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, old)] == [0o600, 0o640]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes to the files of others")
def test_a_file_stays_its_owners(tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text("old")
    os.chown(path, 65534, 65534)
    write_atomically(path, lambda file: file.write_text("new"))
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)


def test_the_longest_name_can_be_written(tmp_path):
    path = tmp_path / ("n" * 250 + ".json")
    write_atomically(path, lambda file: file.write_text("text"))
    assert path.read_text() == "text"
    with pytest.raises(InputError, match="File name too long"):
        write_atomically(tmp_path / ("n" * 300), lambda file: None)


def test_a_lock_file_is_neither_a_store_nor_truncated(tmp_path):
    (tmp_path / "history.lock").write_text("somebody's file")
    for ending in (".lock", ".sqlite-wal", ".sqlite-shm", ".sqlite-journal", ".sqlite-reserve"):
        with pytest.raises(InputError, match=rf"history{ending} is the name of a file that belongs to a database"):
            locked(tmp_path / f"history{ending}", "--store")
    locked(tmp_path / "history.sqlite", "--store").close()
    assert (tmp_path / "history.lock").read_text() == "somebody's file"


@pytest.mark.parametrize("name", ["", ".", "/", "/dev/null", "{folder}", "{folder}/" + "x" * 300, "{folder}/a\0b"])
def test_what_cannot_be_a_database_is_refused_in_one_line(tmp_path, name):
    with pytest.raises(InputError, match="choose another --store"):
        locked(type(tmp_path)(name.format(folder=tmp_path)), "--store")
