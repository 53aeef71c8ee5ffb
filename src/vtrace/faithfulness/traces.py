"""Frozen responses on disk: a folder with one SQLite file, or one per shard. A batch is written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, cast

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError
from .database import Database, connect_read_only, insert_row, read_settings, readable
from .plan import IdentifiedModel
from .rows import TraceRows, TraceSettings
from .store import WHOLE_RUN, FrozenResponse, Shard, read_reasons

TRACE_VERSION = 1
TRACE_FILES = "traces*.sqlite"
_SCHEMA = """
CREATE TABLE response (
  key TEXT PRIMARY KEY, number INTEGER NOT NULL, asked TEXT NOT NULL, reply TEXT NOT NULL, finish TEXT NOT NULL,
  text TEXT NOT NULL, source TEXT NOT NULL, round_trips INTEGER);
CREATE TABLE left_out (item TEXT PRIMARY KEY, reason TEXT NOT NULL);
"""


def trace_file(folder: Path, shard: Shard = WHOLE_RUN) -> Path:
    """The file that one shard writes. All files of a folder are read together, whatever their shards."""
    return folder / ("traces.sqlite" if shard.count == 1 else f"traces-{shard.number}-of-{shard.count}.sqlite")


class TraceStore:
    """Responses on disk. Only one process may write to a file at a time."""

    def __init__(self, path: Path, settings: TraceSettings):
        """Open a file, or create one. A file that was made with other settings is refused."""
        self.path = path
        self._database = Database(path, _SCHEMA, TRACE_VERSION, settings)

    def save(self, rows: TraceRows) -> None:
        """Write everything or nothing. Items that have a response now are no longer left out."""
        with self._database.transaction() as connection:
            for table, found in vars(rows).items():
                for row in found:
                    insert_row(connection, table, row)
            for response in rows.response:
                connection.execute("DELETE FROM left_out WHERE item = ?", (response["key"],))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()


@dataclass(frozen=True)
class FrozenTraces:
    """The responses of a folder, by key of the example."""

    place: Path
    settings: TraceSettings
    responses: Mapping[str, FrozenResponse]
    left_out: Mapping[str, str]  # reasons

    def check(self, model: IdentifiedModel, benchmark: Benchmark, system: str) -> None:
        """Refuse responses of another model, to other questions, or under another system prompt."""
        here = {"benchmark": benchmark.name, "system": system}
        here |= {"revision": model.revision} if self.settings["revision"] else {"model": model.name}
        words = {"benchmark": "benchmark", "system": "system prompt", "revision": "model revision", "model": "model"}
        for name, value in here.items():
            if (known := dict(self.settings)[name]) != value:
                raise InputError(
                    f"the responses in {self.place} belong to the {words[name]} {known!r}, not {value!r}; "
                    "choose other --traces"
                )


def read_traces(place: Path) -> FrozenTraces:
    """Read a file of responses, or all of them in a folder, which must have the same settings."""
    paths = sorted(place.glob(TRACE_FILES)) if os.path.isdir(place) else [place]
    if not paths or not os.path.exists(paths[0]):
        raise InputError(f"there are no responses in {place}; freeze some with: vtrace trace --out {place}")
    first, *others = map(_read_file, paths)
    for other in others:
        if other.settings != first.settings:
            raise InputError(f"{other.place} has other settings than the other files in its folder; move it elsewhere")
    responses = {key: found for part in (*others[::-1], first) for key, found in part.responses.items()}
    left_out = {key: why for part in (*others[::-1], first) for key, why in part.left_out.items()}
    return FrozenTraces(
        place, first.settings, responses, {key: why for key, why in left_out.items() if key not in responses}
    )


class TraceSummary(NamedTuple):
    """How many responses a file has, and what is wrong with some of them."""

    responses: int
    cut_off: int  # at the token budget
    not_round_tripped: int  # texts whose tokens are not certain
    left_out: dict[str, int]  # how often for each reason
    probed: bool  # whether the places of image tokens were found by probing

    def describe(self) -> Iterator[str]:
        """What a user should know, in lines."""
        if self.probed:
            yield "probed: the places of image tokens were found by painting patterns into pictures"
        for reason, count in self.left_out.items():
            yield f"left out {count}: {reason}"
        if self.cut_off:
            yield f"{self.cut_off} of {self.responses} responses were cut off at the token budget"
        if self.not_round_tripped:
            yield f"{self.not_round_tripped} of {self.responses} responses do not round-trip; their tokens are a guess"


def summarise_traces(path: Path) -> TraceSummary:
    counts = "SELECT COUNT(*), SUM(finish = 'length'), SUM(round_trips = 0) FROM response"
    with readable(path), closing(connect_read_only(path)) as connection:
        ((count, cut, unsure),) = connection.execute(counts)
        probed = bool(read_settings(connection, path, TRACE_VERSION)["family"])
    return TraceSummary(count, cut or 0, unsure or 0, read_reasons(path, "left_out"), probed)


def _read_file(path: Path) -> FrozenTraces:
    with readable(path), closing(connect_read_only(path)) as connection:
        connection.execute("BEGIN")  # one snapshot: responses may still be added
        settings = cast(TraceSettings, read_settings(connection, path, TRACE_VERSION))
        rows = connection.execute("SELECT key, asked, reply, finish FROM response").fetchall()
        left_out = dict(connection.execute("SELECT item, reason FROM left_out"))
    responses = {key: FrozenResponse(asked, json.loads(reply), finish) for key, asked, reply, finish in rows}
    return FrozenTraces(path, settings, responses, left_out)
