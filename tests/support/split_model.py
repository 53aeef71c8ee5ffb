"""Run by torchrun in several processes: explain one trace with a model that is split over them, and save the numbers.

Arguments: checkpoint, folder for the results, dtype, comma-separated method names.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import vtrace
from vtrace.errors import VTraceError
from vtrace.lvlm.model import Lvlm
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.system.processes import process_rank
from vtrace.tracing.targets import find_target


def numbers(lvlm: Lvlm, methods: list[str]) -> dict[str, np.ndarray]:
    """W, likelihoods, generated tokens, and the scores of methods, or why a method cannot run."""
    trace = vtrace.trace(lvlm, vtrace.example("dev-3"), max_new_tokens=40)
    session = TraceSession.open(lvlm, trace)
    target = find_target(trace, "response")
    found = {
        "ids": np.array(trace.ids),
        "pairwise": session.pairwise().numpy(),
        "likelihoods": session.padded_likelihoods(),
        "revision": np.array(lvlm.revision),
    }
    for name in methods:
        try:
            found[name] = run_method(name, session, target).scores
        except VTraceError as error:
            found[name] = np.array(str(error))
    return found


if __name__ == "__main__":
    checkpoint, folder, dtype, names = sys.argv[1:]
    lvlm = vtrace.load(checkpoint, dtype=dtype, device="tensor-parallel")
    np.savez(Path(folder) / f"{process_rank()}.npz", **numbers(lvlm, names.split(",")))
