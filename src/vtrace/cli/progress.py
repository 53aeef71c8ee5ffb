"""Progress on stderr, if that is a terminal. Every function here yields a `Progress` to report to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from ..system.processes import is_first_process
from ..types import Progress, silent


@contextmanager
def spinner(quiet: bool) -> Iterator[Progress]:
    """A spinner with the label of the current step, and a counter if the total is known."""
    if not _watched(quiet):
        yield silent
        return
    from .terminal import Terminal

    with Terminal(stderr=True).status("Starting") as status:

        def report(done: int, total: int, label: str = "") -> None:
            status.update(f"{label} {done}/{total}" if total else label)

        yield report


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar with the rate and the time left."""
    if not _watched(quiet):
        yield silent
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from .terminal import Terminal

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    with Bar(*columns, console=Terminal(stderr=True)) as bar:
        task = bar.add_task("Starting", total=None, pace="")
        pace = Pace()

        def report(done: int, total: int, label: str = "") -> None:
            said = describe_pace(*pace.update(done, total))
            bar.update(task, completed=done, total=total, description=label or "Done", pace=said)

        yield report


class Measured(NamedTuple):
    """Items measured at the current pace, items left, and the seconds since then."""

    measured: int
    left: int
    seconds: float


class Pace:
    """How fast items are measured, without those of earlier sessions and phases, and without the time to start."""

    def __init__(self) -> None:
        self._began = (0, 0.0)  # items done when work began, and the time then
        self._last = (0, 0)

    def update(self, done: int, total: int) -> Measured:
        another_phase = done < self._last[0] or total != self._last[1]
        if another_phase or done <= self._began[0]:
            self._began = (done, time.monotonic())
        self._last = (done, total)
        return Measured(done - self._began[0], total - done, time.monotonic() - self._began[1])


def describe_pace(measured: int, left: int, seconds: float) -> str:
    """Rate and time left, after `measured` items took this many seconds. Empty if there is no estimate."""
    if not (measured and left and seconds):
        return ""
    return f"{60 * measured / seconds:.3g} per minute, {timedelta(seconds=round(left * seconds / measured))} left"


def _watched(quiet: bool) -> bool:
    return not quiet and sys.stderr.isatty() and is_first_process()
