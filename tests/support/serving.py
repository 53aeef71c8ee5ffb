"""A real server on loopback, in a thread, and a client of a few lines."""

from __future__ import annotations

import copy
import http.client
import io
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from PIL import Image

import vtrace
from support.waiting import PATIENCE, wait_until
from vtrace.lvlm.model import Lvlm
from vtrace.serve.evaluation_runs import EvaluationRuns
from vtrace.serve.history import History
from vtrace.serve.job import FINAL
from vtrace.serve.model_cache import ModelCache
from vtrace.serve.security import Limits
from vtrace.serve.server import ExplanationServer, take_address
from vtrace.serve.service import ExplanationService

METHODS = ("vtrace", "ifr", "rollout", "random")
QUESTION = "In which cell is the purple cross?"


def picture(format: str = "PNG", size: tuple[int, int] | None = None) -> bytes:
    """An embedded picture as a file."""
    image = vtrace.example("test-0").images[0] if size is None else Image.new("RGB", size, "teal")
    buffer = io.BytesIO()
    image.save(buffer, format)
    return buffer.getvalue()


class Gate:
    """Loads the real model, but only once it is open: the worker waits in front of it."""

    def __init__(self, lvlm: Lvlm):
        self.lvlm = lvlm
        self.opened = threading.Event()

    def __call__(self, name: str) -> Lvlm:
        assert self.opened.wait(PATIENCE)
        return self.lvlm


class Client:
    def __init__(self, port: int):
        self.port = port

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None):
        """Status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str):
        status, _, body = self.send("GET", path)
        return status, json.loads(body)

    def ask(self, pictures: tuple[bytes, ...] = (), headers: dict[str, str] | None = None, **fields):
        """Status, headers and document of a question."""
        kind, body = multipart(pictures, {"question": QUESTION, **fields})
        status, found, answer = self.send("POST", "/api/explanations", body, {"content-type": kind, **(headers or {})})
        return status, found, json.loads(answer)

    def events(self, id: str, headers: dict[str, str] | None = None) -> list[dict]:
        """All events until the end."""
        status, _, body = self.send("GET", f"/api/explanations/{id}/events", headers=headers)
        assert status == 200
        return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]

    def wait(self, id: str, *statuses: str) -> dict:
        """The facts, once the status is one of these."""
        found: dict = {}

        def arrived() -> bool:
            found.update(self.get(f"/api/explanations/{id}")[1])
            return found["status"] in (statuses or FINAL)

        wait_until(arrived, f"the end of {id}")
        return found


def multipart(pictures: tuple[bytes, ...], fields: dict) -> tuple[str, bytes]:
    mark = uuid.uuid4().hex
    parts = [(f'name="pictures"; filename="../../{n}.png"', data) for n, data in enumerate(pictures)]
    for name, value in fields.items():
        parts += [(f'name="{name}"', str(v).encode()) for v in (value if isinstance(value, list) else [value])]
    body = b"".join(
        f"--{mark}\r\ncontent-disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts
    )
    return f"multipart/form-data; boundary={mark}", body + f"--{mark}--\r\n".encode()


@contextmanager
def serving(load, store: Path, runs: Path | None = None, token: str = "", **limits):
    """A client of a running server, whose service and guard are at hand as its attributes.

    The server has a copy of the model: a model serves one thread at a time, and tests use theirs meanwhile. It is made
    here and not when the server's thread asks for it, for the same reason.
    """
    theirs = load.lvlm if isinstance(load, Gate) else load("pinhole")
    own = replace(theirs, model=copy.deepcopy(theirs.model))

    def load_copy(name: str) -> Lvlm:
        load(name)
        return own

    chosen = replace(Limits(), **{"grace": PATIENCE, "patience": 10 * PATIENCE, **limits})
    service = ExplanationService(ModelCache(["pinhole"], load_copy), METHODS, History(store), chosen)
    listening = take_address("127.0.0.1", 0)
    client = Client(listening.getsockname()[1])
    client.service = service
    server = ExplanationServer(service, EvaluationRuns(runs), token)
    client.guard = server.config.app
    service.start()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_until(lambda: server.started, "the start of the server")
    try:
        yield client
    finally:
        server.should_exit = True
        thread.join(2 * PATIENCE)
        service.history.close()
        assert not thread.is_alive()


@contextmanager
def served(folder: Path, *options: object, **environment: str):
    """`vtrace serve` as a user starts it: the process and a client."""
    run = [sys.executable, "-m", "vtrace.cli", "serve", "--store", folder / "history.sqlite", "--port", "0"]
    run += ["--grace", str(PATIENCE), *map(str, options)]
    started = subprocess.Popen(
        run,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    try:
        address = started.stdout.readline()
        assert "http://127.0.0.1:" in address, started.stderr.read()
        yield started, Client(int(address.rsplit(":", 1)[1].strip("/\n")))
    finally:
        started.kill()
        started.communicate()


def resident(process: int, field: str = "VmRSS") -> float:
    """Resident memory of a process in megabytes; VmHWM is the highest so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(rf"{field}:\s*(\d+)", status)[1]) / 1000
