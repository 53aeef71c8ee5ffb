"""Rows of a dataset: texts at hand, pictures read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """A dataset on disk. Files that cannot be read are named, and the others used."""

    texts: list[Row]  # all cells but pictures
    whole: Callable[[int], Row]
    lost: tuple[tuple[str, str], ...] = ()  # file, and why it cannot be read


def check_columns(file: str, present: Iterable[str], wanted: Sequence[str], title: str) -> None:
    """A dataset that changed its columns is refused before anything runs."""
    present = list(present)
    if missing := [name for name in wanted if name not in present]:
        raise InputError(
            f"{file} has no column {missing[0]!r}; it has: {', '.join(present)}. "
            f"Is it {title}? If the dataset changed, take the revision that has it"
        )


def unique(keys: Iterable[str]) -> list[str]:
    """Keys with #2, #3, … behind those that came before; numbers where there are none."""
    seen: dict[str, int] = {}
    found = []
    for number, given in enumerate(keys):
        key = given or str(number)
        seen[key] = seen.get(key, 0) + 1
        found.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return found
