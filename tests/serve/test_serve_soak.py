"""A soak: after a thousand requests, memory and file descriptors are what they were after the first hundred."""

from __future__ import annotations

import os

import pytest

from support.serving import picture, resident, served
from support.waiting import wait_until

pytestmark = pytest.mark.slow
FIRST, ALL = 100, 1000


def test_a_thousand_requests_leave_memory_and_descriptors_alone(tmp_path):
    with served(tmp_path, "--max-new-tokens", 8) as (process, client):
        done = client.ask((picture(size=(64, 64)),))[2]["id"]
        client.wait(done, "done")
        bad = picture()[:500]
        requests = (
            lambda: client.send("GET", "/"),
            lambda: client.get("/api/server"),
            lambda: client.get("/api/explanations"),
            lambda: client.send("GET", f"/api/explanations/{done}/page"),
            lambda: client.send("GET", f"/api/explanations/{done}/result"),
            lambda: client.send("GET", f"/api/explanations/{done}/picture"),
            lambda: client.events(done),
            lambda: client.ask((bad,)),
            lambda: client.send("GET", "/nothing"),
            lambda: client.send("POST", "/api/explanations", b"x" * 1000),
        )

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{process.pid}/fd"))

        for number in range(FIRST):
            requests[number % len(requests)]()
        memory, open_files = resident(process.pid), descriptors()
        for number in range(FIRST, ALL):
            requests[number % len(requests)]()
        print(f"{memory:.0f} → {resident(process.pid):.0f} MB, {open_files} → {descriptors()} descriptors")
        assert resident(process.pid) < 1.05 * memory
        wait_until(lambda: descriptors() <= 1.05 * open_files, "the end of the last connections")
