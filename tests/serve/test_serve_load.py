"""Many clients, a server that is killed, and one that is stopped: nothing finished is lost."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from support.serving import Client, Gate, picture, served, serving
from support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow
CLIENTS = 32


def test_thirty_two_clients_are_all_served_with_no_error_but_429(pinhole, tmp_path):
    refused = []
    gate = Gate(pinhole)  # opens when the queue has been full once

    def one(client: Client, number: int) -> dict:
        while True:
            status, headers, made = client.ask((picture(size=(64, 64)),), question=f"Is this picture {number}?")
            if status == 202:
                break
            assert status == 429
            refused.append(number)
            gate.opened.set()
            time.sleep(min(float(headers["retry-after"]), 0.5))
        events = client.events(made["id"])
        assert [event["place"] for event in events] == sorted((e["place"] for e in events), reverse=True)
        assert events[-1]["status"] == "done"
        return client.get(f"/api/explanations/{made['id']}")[1]

    with serving(gate, tmp_path / "history.sqlite", waiting=8, new_tokens=12) as client:
        longest = 0
        with ThreadPoolExecutor(CLIENTS) as pool:
            found = [pool.submit(one, client, number) for number in range(CLIENTS)]
            while not all(future.done() for future in found):
                longest = max(longest, len(client.service.queue.jobs()))
                time.sleep(0.01)
        facts = [future.result() for future in found]
        assert longest <= 9, "eight wait and one runs"
        assert refused, "32 clients do not fit into a queue of eight"
        assert [one["question"] for one in facts] == [f"Is this picture {n}?" for n in range(CLIENTS)]
        assert {one["status"] for one in client.get("/api/explanations?count=200")[1]} == {"done"}
        assert len(client.get("/api/explanations?count=200")[1]) == CLIENTS


@pytest.fixture
def killed(tmp_path):
    """A server that was killed in the middle of its session: what had been finished, and what had not."""
    with served(tmp_path) as (started, client):
        ids = [client.ask(example="test-00011", methods=["vtrace", "ifr"])[2]["id"] for _ in range(12)]

        def finished() -> list[str]:
            return [id for id in ids if client.get(f"/api/explanations/{id}")[1]["status"] == "done"]

        wait_until(lambda: len(finished()) >= 2, "the end of two explanations")
        done = finished()
        started.send_signal(signal.SIGKILL)
        started.wait(PATIENCE)
    return ids, done


def test_a_kill_and_a_restart_lose_no_finished_result(killed, tmp_path):
    ids, done = killed
    with served(tmp_path) as (started, client):
        found = {one["id"]: one["status"] for one in client.get("/api/explanations")[1]}
        assert found.keys() == set(ids)
        assert {found[id] for id in done} == {"done"}
        assert set(found.values()) <= {"done", "interrupted"}  # a slow client may find all of them done
        for id in done:
            assert client.send("GET", f"/api/explanations/{id}/page")[0] == 200
            assert json.loads(client.send("GET", f"/api/explanations/{id}/result?method=ifr")[2])["method"] == "ifr"
        again = client.ask(example="test-00011")[2]["id"]
        assert client.wait(again)["status"] == "done"

        waiting = [client.ask(example="test-00011")[2]["id"] for _ in range(8)]
        client.wait(waiting[0], "running", "done")
        started.send_signal(signal.SIGTERM)
        err = started.communicate(timeout=PATIENCE)[1]
        assert "Traceback" not in err, err
        assert started.returncode == 0
    assert not (tmp_path / "history.sqlite-wal").exists(), "the history was closed"
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as db:
        found = dict(db.execute("SELECT id, status FROM explanation"))
    assert {found[id] for id in waiting} <= {"done", "interrupted"}
    assert found[waiting[0]] == "done", "what runs is finished"
    assert found[again] == "done"
