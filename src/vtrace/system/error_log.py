"""Bugs of ours: the traceback goes to a log, and the user gets one line that says where it is."""

from __future__ import annotations

import os
import tempfile
import traceback
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ..errors import first_line, one_line

LOG_NAME = "errors.log"  # in the folder of a run


def record_bug(error: BaseException, folder: Path | None, what: str) -> str:
    """Append a traceback to the log of a run; what was being done becomes its heading. Returns the reason to record.

    A worker, which has no folder, writes a file of its own.
    """
    if folder is None:
        return report_bug(error)
    with suppress(OSError), (folder / LOG_NAME).open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{datetime.now().isoformat(timespec='seconds')} {one_line(what)}\n{_traceback(error)}\n")
    return f"{describe_bug(error)}; see {LOG_NAME} in the folder of the run"


def report_bug(error: BaseException) -> str:
    """Write a traceback to a new file, and return one line with its path."""
    try:
        handle, name = tempfile.mkstemp(prefix="vtrace-error-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(_traceback(error))
    except OSError:
        return f"{describe_bug(error)}; its traceback could not be written"
    return f"{describe_bug(error)}; please report it with the traceback in {name}"


def describe_bug(error: BaseException) -> str:
    """An unexpected error in a few words."""
    return f"an error inside VTrace ({type(error).__name__}: {one_line(first_line(error))[:160]})"


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
