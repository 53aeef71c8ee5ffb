"""What happens during an evaluation: for people on stderr, and with --json for programs, one object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..types import Progress
from .outputs import print_note
from .progress import Pace, progress_bar

if TYPE_CHECKING:
    from ..scheduling.scheduler import WorkerState

_CONSEQUENCES = {
    "died": "it is replaced, and its work is done again",
    "replaced": "a new one takes its place",
    "refused": "the others go on without it",
}


class EvaluationEvents:
    """Reports progress, workers that come and go, and the end of an evaluation."""

    def __init__(self, as_json: bool, quiet: bool):
        self._json, self._quiet = as_json, quiet

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """One line for all workers with rate and time left, or one JSON object per finished item."""
        if not self._json:
            with progress_bar(self._quiet) as report:
                yield report
            return
        pace = Pace()

        def report_json(done: int, total: int, label: str = "") -> None:
            measured, left, seconds = pace.update(done, total)
            known = measured and {"per_minute": 60 * measured / seconds, "seconds_left": left * seconds / measured}
            self._print(event="progress", done=done, total=total, label=label, **(known or {}))

        yield report_json

    def worker(self, seat: int, state: WorkerState, reason: str) -> None:
        if self._json:
            self._print(event="worker", worker=seat + 1, state=state, reason=reason)
        elif consequence := _CONSEQUENCES.get(state):
            print_note(f"worker {seat + 1} {state}: {reason}; {consequence}")

    def finished(self, path: str, left_out: dict[str, int], failed: dict[str, int]) -> None:
        if self._json:
            self._print(event="finished", run=path, left_out=left_out, failed=failed)
            return
        for reason, count in left_out.items():
            print_note(f"left out {count}: {reason}")
        for reason, count in failed.items():
            print_note(f"failed {count} times: {reason}")
        print(f"wrote {path}", file=sys.stderr)
        print(path)

    def _print(self, **facts: Any) -> None:
        print(json.dumps(facts), flush=True)
