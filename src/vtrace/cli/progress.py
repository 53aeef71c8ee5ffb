"""Progress on stderr, if that is a terminal. Every function here yields a `Progress` to report to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from ..types import Progress, silent


@contextmanager
def spinner(quiet: bool) -> Iterator[Progress]:
    """A spinner with the label of the current step, and a counter if the total is known."""
    if not _watched(quiet):
        yield silent
        return
    from rich.console import Console

    with Console(stderr=True).status("Starting") as status:

        def report(done: int, total: int, label: str = "") -> None:
            status.update(f"{label} {done}/{total}" if total else label)

        yield report


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar with the rate and the time left."""
    if not _watched(quiet):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("Starting", total=None, pace="")
        resumed: list[tuple[int, float]] = []  # number of items done when this session began, and the time then

        def report(done: int, total: int, label: str = "") -> None:
            if not resumed or total != bar.tasks[task].total or done < bar.tasks[task].completed:  # another phase
                resumed[:] = [(done, time.monotonic())]
            ((before, began),) = resumed
            pace = describe_pace(done - before, total - done, time.monotonic() - began)
            bar.update(task, completed=done, total=total, description=label or "Done", pace=pace)

        yield report


def describe_pace(measured: int, left: int, seconds: float) -> str:
    """Rate and time left, after `measured` items took this many seconds. Empty if there is no estimate."""
    if not (measured and left and seconds):
        return ""
    return f"{60 * measured / seconds:.3g} per minute, {timedelta(seconds=round(left * seconds / measured))} left"


def _watched(quiet: bool) -> bool:
    return not quiet and sys.stderr.isatty()
