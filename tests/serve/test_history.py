"""The history: small, bounded, and without a trace of what was deleted; also on a full disk."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest
from PIL import Image

import vtrace
from support.serving import Gate, picture, serving
from support.waiting import wait_until
from vtrace.report.documents import attribution_document, from_document
from vtrace.serve.history import History
from vtrace.serve.stored_results import pack_results

METHODS = ["vtrace", "ifr", "rollout", "random"]


def photograph(width: int = 1600, height: int = 1200) -> bytes:
    """A JPEG that does not compress well."""
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def size(folder) -> int:
    """Of the history with its log, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir() if not path.name.endswith("-reserve"))


def contents(folder) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_a_picture_is_stored_once_and_a_deleted_explanation_leaves_nothing(pinhole, tmp_path):
    data, question = photograph(), "Is the zebra 4711 in this picture?"
    with serving(lambda name: pinhole, tmp_path / "history.sqlite", new_tokens=40) as client:
        kept = client.ask(example="test-00011")[2]["id"]
        client.wait(kept, "done")
        before = size(tmp_path)
        made = client.ask((data,), question=question, methods=METHODS)[2]["id"]
        client.wait(made, "done")
        assert client.send("GET", f"/api/explanations/{made}/page")[0] == 200
        grown = size(tmp_path) - before
        with closing(sqlite3.connect(tmp_path / "history.sqlite")) as db:
            pictures = db.execute("SELECT SUM(LENGTH(data)) FROM picture WHERE explanation = ?", (made,)).fetchone()[0]
        assert pictures == len(data)
        print(f"a JPEG of {len(data) / 1e6:.1f} MB by {len(METHODS)} methods takes {grown / 1e6:.1f} MB with its log")
        assert question.encode() in contents(tmp_path)
        assert data[1000:1100] in contents(tmp_path)
        assert client.send("DELETE", f"/api/explanations/{made}")[0] == 204
        assert size(tmp_path) < before + 100_000
        for secret in (question.encode(), b"zebra", data[1000:1032], data[len(data) // 2 :][:32]):
            assert secret not in contents(tmp_path)
        assert client.get(f"/api/explanations/{kept}")[1]["status"] == "done"
        assert client.send("GET", f"/api/explanations/{kept}/page")[0] == 200


def test_what_is_stored_is_what_was_found(pinhole, attribution):
    buffer = io.BytesIO()
    attribution.trace.images[0].save(buffer, "PNG")
    other = vtrace.compare(pinhole, attribution.trace, ["ifr", "random"])
    results = [attribution, attribution.retarget("answer"), *other.results.values()]
    stored = pack_results(results, [buffer.getvalue()])
    assert len(stored.matrices) < len([r for r in results if r.pairwise is not None]), "shared by two"
    for result, again in zip(results, stored.attributions(), strict=True):
        found, expected = (json.loads(json.dumps(attribution_document(one))) for one in (again, result))
        assert found == expected
    assert from_document(stored.document("ifr")).method == "ifr"
    assert stored.document("loo") is None


def test_beyond_its_limit_the_oldest_go_first_and_the_newest_stays(pinhole, tmp_path):
    with serving(lambda name: pinhole, tmp_path / "history.sqlite", new_tokens=8) as client:
        client.service.history.most_bytes = 400_000
        ids = []
        for number in range(4):
            ids.append(client.ask((photograph(480, 360),), question=f"Number {number}?")[2]["id"])
            client.wait(ids[-1], "done")
        wait_until(lambda: size(tmp_path) < 1_500_000)
        left = [one["id"] for one in client.get("/api/explanations")[1]]
        assert left == ids[: -len(left) - 1 : -1]
        assert 1 <= len(left) < 4
        client.service.history.most_bytes = 1
        last = client.ask(example="test-00011")[2]["id"]
        client.wait(last, "done")
        wait_until(lambda: [one["id"] for one in client.get("/api/explanations")[1]] == [last])
        assert client.send("GET", f"/api/explanations/{last}/page")[0] == 200


def test_what_a_killed_server_was_deleting_is_gone_when_the_history_is_opened(tmp_path):
    history = History(tmp_path / "history.sqlite")
    history._db.execute(
        "INSERT INTO explanation VALUES (1,'a','done',0,0,'m','[]','t','secret',NULL,NULL,NULL,?,NULL)",
        (b"zebra" * 9999,),
    )
    history._db.commit()
    history._db.execute("DELETE FROM explanation")
    history._db.commit()  # and no more
    history.close()
    History(tmp_path / "history.sqlite").close()
    assert b"zebra" not in contents(tmp_path)


@contextmanager
def small_disk(folder, megabytes: int):
    """A file system with little space."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said_recorded_and_can_be_emptied(pinhole, tmp_path):
    gate = Gate(pinhole)
    gate.opened.set()
    with small_disk(tmp_path / "disk", 24) as disk, serving(gate, disk / "history.sqlite", new_tokens=8) as client:
        first = client.ask((photograph(),))[2]["id"]
        assert client.wait(first)["status"] == "done"
        gate.opened.clear()
        waiting = [client.ask((photograph(),))[2]["id"] for _ in range(2)]
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(bytes(free - 300_000))
        gate.opened.set()
        for id in waiting:
            facts = client.wait(id)
            assert (facts["status"], facts["error"].split(";")[0]) == ("failed", "the disk is full")
            assert client.events(id)[-1]["status"] == "failed"
        with suppress(OSError), open(disk / "more", "wb", buffering=0) as more:
            while more.write(bytes(1000)) == 1000:
                pass
        status, _, answer = client.ask((picture(size=(64, 64)),))
        assert status == 202 or (status, answer["detail"].split(";")[0]) == (507, "the disk is full")
        assert client.send("GET", f"/api/explanations/{first}/page")[0] == 200
        assert client.send("DELETE", f"/api/explanations/{first}")[0] == 204
        (disk / "ballast").unlink()
        again = client.ask((photograph(),))[2]["id"]
        assert client.wait(again)["status"] == "done"
        assert client.get(f"/api/explanations/{first}")[0] == 404
