"""Public benchmarks: what is known about each, and how to open one from the hub, a folder or a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..tracing.pictures import BLUR
from ..types import AnswerKind, Example
from .benchmark import Benchmark
from .readers.hub import fetch_dataset
from .readers.parquet import read_parquet
from .readers.rows import DatasetRow, DatasetRows, read_row, unique_keys
from .readers.tsv import read_tsv, tsv_example

_DEPTH = 4  # levels of folders that are searched


@dataclass(frozen=True)
class PublicBenchmark:
    """Description of a public benchmark. `key` and `example` read one row in the benchmark's own columns."""

    name: str
    title: str
    size: int
    licence: str  # as stated on its card
    hub: tuple[str, ...]  # repositories that hold it, tried in this order
    files: tuple[str, ...]  # patterns of its files in the repository
    tsv: str  # its file in VLMEvalKit
    columns: tuple[str, ...]
    key: Callable[[DatasetRow], str]
    example: Callable[[DatasetRow], Example]
    free: AnswerKind = "words"  # how answers without options are graded
    keep: Callable[[DatasetRow], bool] = lambda row: True


def open_public_benchmark(source: PublicBenchmark, data: Path | None = None) -> Benchmark:
    """From the hub, or from `data`: a folder of Parquet files, a Parquet file, or a TSV file."""
    place = data or fetch_dataset(source.hub, source.files, source.title)
    if not os.path.exists(place):
        raise InputError(f"{place} does not exist; give a folder of Parquet files, a Parquet file or a TSV file")
    paths = [place] if os.path.isfile(place) else _files(source, place)
    make: Callable[[DatasetRow], Example]
    if paths[0].suffix == ".tsv":
        rows, make = read_tsv(paths[0], source.title), partial(tsv_example, free=source.free)
        keys = [row["index"] for row in rows.texts]
    else:
        rows, make = read_parquet(paths, source.columns, source.title), source.example
        keys = [read_row(partial(source.key, row)) for row in rows.texts]
    kept = [index for index, row in enumerate(rows.texts) if source.keep(row)]
    return _benchmark(source, rows, make, kept, unique_keys(keys[index] for index in kept))


def _benchmark(
    source: PublicBenchmark, rows: DatasetRows, make: Callable[[DatasetRow], Example], kept: list[int], keys: list[str]
) -> Benchmark:
    def example(number: int) -> Example:
        return replace(read_row(lambda: make(rows.whole(kept[number]))), key=keys[number])

    return Benchmark(source.name, len(kept), keys.__getitem__, example, BLUR, rows.lost)


def _files(source: PublicBenchmark, folder: Path) -> list[Path]:
    """Files of the benchmark in a folder: laid out as on the hub, side by side, or the TSV file."""
    tables = sorted(_parquet_files(folder))
    names = {path: path.relative_to(folder).as_posix() for path in tables}
    for patterns in (source.files, [pattern.rpartition("/")[2] for pattern in source.files]):
        if found := [path for path in tables if _matches(names[path], patterns)]:
            return found
    if (table := folder / f"{source.tsv}.tsv").is_file():
        return [table]
    there = ", ".join(list(names.values())[:3]) or "no Parquet file"
    raise InputError(
        f"{folder} has neither {' nor '.join(source.files)} nor {source.tsv}.tsv (there is {there}); "
        "give the file itself"
    )


def _parquet_files(folder: Path) -> Iterator[Path]:
    """Parquet files in a folder and a few levels below; unreadable folders are skipped."""
    for place, below, names in os.walk(folder):
        yield from (Path(place) / name for name in names if name.endswith(".parquet"))
        if len(Path(place).relative_to(folder).parts) >= _DEPTH:
            below.clear()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
