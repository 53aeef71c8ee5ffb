"""Responses from files: saved traces and attributions, tables, and folders in which `vtrace trace` froze some."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..benchmarks.benchmark import Benchmark
from ..benchmarks.readers.rows import unique_keys
from ..benchmarks.readers.tables import TABLE_SUFFIXES
from ..benchmarks.registry import find_benchmark
from ..benchmarks.user_questions import open_user_questions
from ..errors import InputError
from ..faithfulness.response_row import fingerprint
from ..faithfulness.store import FrozenResponse
from ..faithfulness.traces import TRACE_FILES, read_traces
from ..lvlm.model import Lvlm
from ..report.trace_document import read_trace
from ..tracing.defaults import SYSTEM_PROMPT
from ..tracing.example import tidy
from ..tracing.generate import retrace, trace
from ..tracing.reply import Reply
from ..types import Trace

TRACE_SUFFIX = ".json"


class StoredResponse(NamedTuple):
    """A response in a file. Opening it can fail; the error says why it is left out."""

    key: str  # unique: the name of a trace file, or the id or number of a row
    open: Callable[[Lvlm], Trace]
    file: Path | None = None  # of a saved trace
    model: str = ""  # that generated it, if that is known without opening it


def find_responses(places: Sequence[Path], system: str = SYSTEM_PROMPT) -> list[StoredResponse]:
    """All responses in files and folders, in order. Only tables are read at once.

    Args:
        places: trace files, tables (JSONL or CSV), folders with trace files or a table, and folders of `vtrace trace`.
        system: the system prompt under which the responses of a table were sampled.
    """
    found = [response for place in places for response in _in_place(place, system, len(places) > 1)]
    keys = unique_keys(response.key for response in found)
    return [response._replace(key=key) for response, key in zip(found, keys, strict=True)]


def model_of(responses: Sequence[StoredResponse], default: str = "pinhole") -> str:
    """The model of the first trace that can be read."""
    for response in responses:
        if response.model:
            return response.model
        if response.file is not None:
            with suppress(InputError):
                return read_trace(response.file).model
    return default


def _in_place(place: Path, system: str, several: bool) -> Iterator[StoredResponse]:
    if os.path.isdir(place) and any(place.glob(TRACE_FILES)):
        yield from _frozen(place)
    elif os.path.isdir(place) and (traces := sorted(place.glob(f"*{TRACE_SUFFIX}"))):
        if tables := [path for path in sorted(place.iterdir()) if path.suffix in TABLE_SUFFIXES]:
            raise InputError(f"{place} has traces and tables ({traces[0].name}, {tables[0].name}); give one of them")
        yield from map(_saved, traces)
    elif os.path.isfile(place) and place.suffix == TRACE_SUFFIX:
        yield _saved(place)
    elif os.path.exists(place) and not os.path.isdir(place) and place.suffix not in TABLE_SUFFIXES:
        raise InputError(f"{place} is neither a trace ({TRACE_SUFFIX}) nor a table ({' or '.join(TABLE_SUFFIXES)})")
    else:
        table = open_user_questions(place)
        for number in range(table.size):
            key = f"{table.name}/{table.key(number)}" if several else table.key(number)
            yield StoredResponse(key, partial(_of_row, table, number, system))


def _frozen(folder: Path) -> Iterator[StoredResponse]:
    """Responses of `vtrace trace`, which has not stored the pictures: they come from the benchmark."""
    found = read_traces(folder)
    benchmark, system = find_benchmark(found.settings["benchmark"]), found.settings["system"]
    for number, key in enumerate(map(benchmark.key, range(benchmark.size))):
        if response := found.responses.get(key):
            opened = partial(_retraced, benchmark, number, response, system)
            yield StoredResponse(key, opened, model=found.settings["model"])


def _retraced(benchmark: Benchmark, number: int, response: FrozenResponse, system: str, lvlm: Lvlm) -> Trace:
    example = tidy(benchmark.example(number))
    if fingerprint(example) != response.asked:
        raise InputError("it has a different picture, question or answer than when its response was frozen")
    return retrace(lvlm, example, Reply(response.ids, response.finish), system)


def _saved(path: Path) -> StoredResponse:
    return StoredResponse(path.stem, lambda lvlm: read_trace(path), path)


def _of_row(table: Benchmark, number: int, system: str, lvlm: Lvlm) -> Trace:
    example = table.example(number)
    if not (example.response or example.response_ids):
        raise InputError("there is no response; add a column 'response' or 'response_ids'")
    return trace(lvlm, example, system=system)
