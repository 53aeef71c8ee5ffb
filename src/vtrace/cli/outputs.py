"""Files that commands write, checked before any work starts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ..system.files import check_writable

STDOUT = "-"


def json_file(argument: str) -> Path | None:
    """The file that --json names; None if there is none, or if it goes to stdout."""
    return Path(argument) if argument not in ("", STDOUT) else None


def check_outputs(*places: Path | None) -> None:
    """Before minutes of work: can all of these files be written?"""
    for place in places:
        if place is not None:
            check_writable(place)


def print_written(places: Iterable[Path]) -> None:
    for place in places:
        print(f"wrote {place}", file=sys.stderr)
