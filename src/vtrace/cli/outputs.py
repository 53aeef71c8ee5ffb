"""Files that commands write, checked before any work starts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import one_line
from ..system.files import check_writable

STDOUT = "-"


def json_file(argument: str) -> Path | None:
    """The file given with --json; None if there is none, or if JSON goes to stdout."""
    return Path(argument) if argument not in ("", STDOUT) else None


def check_outputs(*places: Path | None) -> None:
    """Check, before any slow work, that all of these files can be written."""
    for place in places:
        if place is not None:
            check_writable(place)


def print_note(text: str) -> None:
    """One line on stderr, whatever the text contains."""
    print(f"vtrace: {one_line(text)}", file=sys.stderr)


def print_written(places: Iterable[Path]) -> None:
    for place in places:
        print(f"wrote {place}", file=sys.stderr)
