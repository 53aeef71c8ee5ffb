"""Files that commands write, checked before any work starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from ..errors import InputError, one_line
from ..system.files import check_writable, is_stream

STDOUT = "-"
FIGURE_ENDINGS = (".png", ".pdf", ".svg")


def json_file(argument: str) -> Path | None:
    """The file given with --json; None if there is none, or if JSON goes to stdout."""
    return Path(argument) if argument not in ("", STDOUT) else None


def figure_form(place: Path) -> Literal["png"] | None:
    """What the figure is written as, if the name does not say it: the name of a device has no ending."""
    return None if place.suffix else "png"


def check_outputs(*places: Path | None) -> None:
    """Check, before any slow work, that all of these files can be written."""
    for place in places:
        if place is not None:
            check_writable(place)


def ending(*suffixes: str) -> Callable[[Path | None], Path | None]:
    """A check of an option that names a file: its contents and its ending have to agree. Devices have no ending."""

    def check(place: Path | None) -> Path | None:
        if place is None or is_stream(place) or os.path.isdir(place):  # what is wrong with a folder is said elsewhere
            return place
        if place.suffix.lower() not in suffixes:
            known = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}" if len(suffixes) > 1 else suffixes[0]
            raise InputError(f"{place} has to end in {known}; other formats are not written")
        return place

    return check


def print_note(text: str) -> None:
    """One line on stderr, whatever the text contains."""
    print(f"vtrace: {one_line(text)}", file=sys.stderr)


def print_written(places: Iterable[Path]) -> None:
    for place in places:
        print(f"wrote {place}", file=sys.stderr)
