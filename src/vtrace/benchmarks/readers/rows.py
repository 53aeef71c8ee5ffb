"""Rows of a dataset: texts in memory, pictures read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import InputError, first_line
from ..benchmark import LostFile

DatasetRow = dict[str, Any]  # cells by column, of whatever type the file has
_Made = TypeVar("_Made")


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


def read_row(make: Callable[[], _Made]) -> _Made:
    """What a function makes of a row. Cells can contain anything; an item whose row cannot be read is left out."""
    try:
        return make()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the row cannot be read: {type(error).__name__}: {first_line(error)[:120]}") from error


def unique_keys(keys: Iterable[str]) -> list[str]:
    """The same keys with #2, #3, … appended to repeated ones; the row number where a key is empty."""
    seen: dict[str, int] = {}
    found = []
    for number, given in enumerate(keys):
        key = given or str(number)
        seen[key] = seen.get(key, 0) + 1
        found.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return found
