"""Rows of a dataset: texts in memory, pictures read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ..benchmark import LostFile

DatasetRow = dict[str, Any]  # cells by column, of whatever type the file has


@dataclass(frozen=True)
class DatasetRows:
    """A dataset on disk. Unreadable files are reported, and the others are used."""

    texts: list[DatasetRow]  # all cells except pictures
    whole: Callable[[int], DatasetRow]
    lost: tuple[LostFile, ...] = ()


def check_columns(file: str, present: Iterable[str], wanted: Sequence[str], title: str) -> None:
    """Before anything runs, refuse a dataset whose columns have changed."""
    present = list(present)
    if missing := [name for name in wanted if name not in present]:
        raise InputError(
            f"{file} has no column {missing[0]!r}; it has: {', '.join(present)}. "
            f"Is it {title}? If the dataset changed, use the revision that has this column"
        )


def unique_keys(keys: Iterable[str]) -> list[str]:
    """The same keys with #2, #3, … appended to repeated ones; the row number where a key is empty."""
    seen: dict[str, int] = {}
    found = []
    for number, given in enumerate(keys):
        key = given or str(number)
        seen[key] = seen.get(key, 0) + 1
        found.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return found
