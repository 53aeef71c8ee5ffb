"""Run by torchrun in several processes: explain traces with models that are split over them, and save the numbers.

Arguments: a folder for the results, and checkpoints. With the checkpoint "fail", the last process raises an error while
the others wait for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import vtrace
from support.waiting import PATIENCE
from vtrace.errors import ModelError, VTraceError
from vtrace.lvlm.model import Lvlm
from vtrace.methods.registry import METHODS, run_method
from vtrace.methods.session import TraceSession
from vtrace.system.processes import process_count, process_rank
from vtrace.tracing.targets import find_target
from vtrace.types import Trace

OPTIONS = {"reagent": {"steps": 3}}


def torchrun(*arguments: object, processes: int = 2) -> subprocess.CompletedProcess[str]:
    """Start a program in several processes, at a free port."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
    )


def traced(lvlm: Lvlm) -> Trace:
    if lvlm.name == "pinhole":
        return vtrace.trace(lvlm, vtrace.example("dev-3"))
    pixels = np.random.default_rng(0).integers(0, 256, (50, 75, 3), dtype=np.uint8)
    response = "It is there.\nFinal answer: there"
    return vtrace.trace(lvlm, Image.fromarray(pixels), "Where is the red star?", response=response, system="")


def numbers(lvlm: Lvlm, methods: list[str]) -> dict[str, np.ndarray]:
    """Tokens, W, likelihoods, fingerprint, and the scores of methods, or why a method cannot run."""
    trace = traced(lvlm)
    session = TraceSession.open(lvlm, trace)
    target = find_target(trace, "response")
    found = {
        "ids": np.array(trace.ids),
        "pairwise": session.pairwise().dense().numpy(),
        "likelihoods": session.padded_likelihoods(),
        "revision": np.array(lvlm.revision),
    }
    for name in methods:
        try:
            found[name] = run_method(name, session, target, **OPTIONS.get(name, {})).scores
        except VTraceError as error:
            found[name] = np.array(str(error))
    return found


def methods_for(checkpoint: str) -> list[str]:
    """All methods on a small random model, and only the paper's on the embedded one."""
    return ["vtrace"] if checkpoint == "pinhole" else list(METHODS)


def fail() -> None:
    lvlm = vtrace.load("pinhole", device="tensor-parallel")
    trace = traced(lvlm)
    if process_rank() == process_count() - 1:
        raise ModelError("this process fails")
    vtrace.attribute(lvlm, trace)


def main(folder: str, *checkpoints: str) -> None:
    for number, checkpoint in enumerate(checkpoints):
        if checkpoint == "fail":
            fail()
        lvlm = vtrace.load(checkpoint, dtype="float32", device="tensor-parallel")
        np.savez(Path(folder) / f"{number}-{process_rank()}.npz", **numbers(lvlm, methods_for(checkpoint)))


if __name__ == "__main__":
    main(*sys.argv[1:])
