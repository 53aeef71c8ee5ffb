"""Kills in the middle of work: an evaluation completes to the same rows, and a server loses no finished result.

VTRACE_KILLS says how many of each; `make test-durability` asks for 50.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from support.forking import ITEMS, Parent
from support.serving import Client
from support.waiting import wait_until

KILLS = int(os.environ.get("VTRACE_KILLS", "5"))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def parent():
    started = Parent()
    yield started
    started.close()


def measured(folder) -> list[tuple]:
    """Everything that was measured except times."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        items = db.execute("SELECT key, reply, clean, image_perturbed FROM item").fetchall()
        curves = db.execute("SELECT item, method, setting, mode, rise, mas, response, mass FROM curve").fetchall()
        assert not db.execute("SELECT * FROM left_out UNION ALL SELECT item, reason FROM failure").fetchall()
    return sorted(map(repr, [*items, *curves]))


def test_an_evaluation_killed_at_random_moments_completes_to_the_same_rows(parent, tmp_path):
    dice = random.Random(20)
    began = time.monotonic()
    parent.start("evaluate", tmp_path / "whole")
    assert parent.wait() == 0
    whole, expected = time.monotonic() - began, measured(tmp_path / "whole")
    kills, run = 0, 0
    while kills < KILLS:
        child = parent.start("evaluate", tmp_path / f"run {run}")
        if child.said == "working":
            time.sleep(dice.uniform(0, whole / 2))
            os.kill(child.number, signal.SIGKILL)
        if parent.wait() == -signal.SIGKILL:
            kills += 1
        else:
            assert measured(tmp_path / f"run {run}") == expected
            run += 1
    parent.start("evaluate", tmp_path / f"run {run}")
    assert parent.wait() == 0
    assert measured(tmp_path / f"run {run}") == expected
    print(f"{kills} kills; {run + 1} evaluations completed to the same rows; {ITEMS} items in {whole:.1f} s")


def test_a_server_killed_at_random_moments_loses_no_finished_result(parent, tmp_path):
    dice = random.Random(20)
    told: set[str] = set()  # ids of which a client has learnt that they are done
    asked: set[str] = set()
    deleted: set[str] = set()
    for _ in range(KILLS):
        child = parent.start("serve", tmp_path)
        client = Client(int(child.said))
        found = {one["id"]: one["status"] for one in client.get("/api/explanations?count=200")[1]}
        assert told <= found.keys()
        assert {found[id] for id in told} <= {"done"}
        assert not deleted & found.keys()
        assert set(found.values()) <= {"done", "interrupted"}
        for id in list(told)[-2:]:
            assert client.send("GET", f"/api/explanations/{id}/page")[0] == 200
        new = [client.ask(example="test-00011", methods=["vtrace", "random"])[2]["id"] for _ in range(4)]
        asked |= set(new)
        client.wait(new[0], "running", "done")
        if told and dice.random() < 0.5:
            gone = dice.choice(sorted(told))
            assert client.send("DELETE", f"/api/explanations/{gone}")[0] == 204
            told.discard(gone)
            deleted.add(gone)
        for id in new[: dice.randint(0, 2)]:
            if client.wait(id)["status"] == "done":
                told.add(id)
        time.sleep(dice.uniform(0, 0.3))
        os.kill(child.number, signal.SIGKILL)
        assert parent.wait() == -signal.SIGKILL
    child = parent.start("serve", tmp_path)
    client = Client(int(child.said))
    found = {one["id"]: one["status"] for one in client.get("/api/explanations?count=200")[1]}
    assert {found[id] for id in told} <= {"done"}
    assert found.keys() >= {id for id in asked - deleted if id in told}
    again = client.ask(example="test-00011")[2]["id"]
    wait_until(lambda: client.get(f"/api/explanations/{again}")[1]["status"] == "done", "the end of an explanation")
    os.kill(child.number, signal.SIGKILL)
    parent.wait()
    print(f"{KILLS} kills of the server; {len(told)} results that clients knew of, all still there")
