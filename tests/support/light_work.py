"""Workers that are quick to start: they know nothing of models."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from vtrace.errors import ModelError
from vtrace.scheduling.tasks import WorkerRecipe

FACTORY = "support.light_work:LightWorker"


class LightWorker:
    """Payloads are a verb and its argument."""

    def __init__(self, greeting: str = "hello", refuse: str = "", crash: bool = False):
        if refuse:
            raise ModelError(refuse)
        if crash:
            raise RuntimeError("a bug while starting")
        self.greeting = greeting

    def run(self, payload: tuple[str, Any]) -> Any:
        return getattr(self, payload[0])(payload[1])

    def square(self, number: int) -> int:
        print(f"squaring {number}")
        return number * number

    def nap(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def fail(self, message: str) -> None:
        raise ValueError(message)

    def forget(self, message: str) -> None:
        raise MemoryError(message)

    def unsendable(self, _: None) -> Any:
        return lambda: None

    def die(self, _: None) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def die_once(self, marker: str) -> str:
        """Kill this process, unless an earlier attempt did."""
        if not Path(marker).exists():
            Path(marker).touch()
            self.die(None)
        return "survived"

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def process(self, _: None) -> int:
        return os.getpid()


def light(**arguments: Any) -> WorkerRecipe:
    return WorkerRecipe(FACTORY, arguments)
