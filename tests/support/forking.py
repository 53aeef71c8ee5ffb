"""A process that loads the model once and forks: its children start in no time, so that kills hit work, not start-up.

Each line of its input names a job and a folder; it answers with the child's number. A child writes a line when it is in
the middle of its work. Children are killed by the test; the parent only waits for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

STEPS = 2
ITEMS = 5


class Child(NamedTuple):
    """A forked process in the middle of its work, and what it said."""

    number: int
    said: str


class Parent:
    """The forking process, as a test sees it."""

    def __init__(self) -> None:
        tests = Path(__file__).parents[1]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([*sys.path, str(tests)])}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._line() == "ready"

    def start(self, job: str, folder: Path) -> Child:
        """Start a child and wait until it works, or until it has nothing to do."""
        self._say(f"{job} {folder}")
        number = int(self._line())
        return Child(number, self._line())

    def wait(self) -> int:
        """Wait for the end of the child; its exit code, or minus the signal that ended it."""
        self._say("wait")
        while not (line := self._line()).startswith("ended "):
            pass
        return int(line.split()[1])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _say(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _line(self) -> str:
        line = self.process.stdout.readline()
        assert line, "the forking process has ended"
        return line.strip()


def _evaluate(lvlm: object, folder: Path) -> None:
    from vtrace.benchmarks.registry import find_benchmark
    from vtrace.faithfulness.plan import EvaluationPlan
    from vtrace.faithfulness.run import evaluate

    said = False

    def report(done: int, total: int, label: str = "") -> None:
        nonlocal said
        if not said:
            print("working" if label else "complete", flush=True)
        said = True

    plan = EvaluationPlan(methods=("vtrace", "random"), steps=STEPS)
    evaluate(lvlm, find_benchmark("shapes-dev"), plan, folder, limit=ITEMS, progress=report)


def _serve(lvlm: object, folder: Path) -> None:
    import signal

    from support.serving import serving

    with serving(lambda name: lvlm, folder / "history.sqlite", new_tokens=24) as client:
        print(client.port, flush=True)
        signal.pause()


def _main() -> None:
    import vtrace

    lvlm = vtrace.load("pinhole")
    print("ready", flush=True)
    child = 0
    for line in sys.stdin:
        job, _, folder = line.strip().partition(" ")
        if job == "wait":
            print(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
            continue
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            {"evaluate": _evaluate, "serve": _serve}[job](lvlm, Path(folder))
            os._exit(0)


if __name__ == "__main__":
    _main()
