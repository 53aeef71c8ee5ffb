"""Runs of `vtrace evaluate`, example by example. Only listed names are looked up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from ..benchmarks.registry import find_benchmark
from ..errors import InputError, VTraceError, first_line, one_line
from ..faithfulness.rows import ItemRow, ResultRow, RunRows
from ..faithfulness.store import RUN_FILES, read_run
from ..faithfulness.tables import mean_rises
from ..system.json_reader import parse_json
from ..system.typed_json import as_typed
from ..tracing.reply import Reply
from ..types import Example, Finish, model_label

_Facts = TypeVar("_Facts", "RunFacts", "ItemFacts", "ItemScores")


@dataclass(frozen=True)
class RunFacts:
    """One run of `vtrace evaluate`."""

    name: str
    model: str
    benchmark: str
    items: int
    correct: int
    graded: int
    rises: dict[str, float] = field(default_factory=dict)  # mean RISE insertion of methods, image setting
    error: str | None = None


@dataclass(frozen=True)
class ItemFacts:
    """One example of a run."""

    key: str
    number: int
    question: str
    response: str
    answer: str | None
    gold: str | None
    correct: bool | None
    tokens: int


@dataclass(frozen=True)
class ItemScores:
    """What was measured for one method on one example."""

    method: str
    target: str
    image_share: float | None
    seconds: float | None
    curves: dict[str, dict[str, float | None]]  # "image insertion" and so on: rise, mas
    evidence: dict[str, float | None]  # how well the known evidence was found
    failure: str | None = None


class RunResponse(NamedTuple):
    """The frozen response to an example of a run, to be explained again."""

    model: str
    example: Example
    reply: Reply


class ItemPage(NamedTuple):
    """Some items of a run, and the total number."""

    total: int
    items: list[ItemFacts]


class MeasuredItem(NamedTuple):
    """One example with everything that was measured on it."""

    facts: ItemFacts
    scores: list[ItemScores]


class EvaluationRuns:
    """The runs in a folder: each a folder with SQLite files in it."""

    def __init__(self, folder: Path | None):
        self.folder = folder

    def all(self) -> list[RunFacts]:
        return [self._facts(name, place) for name, place in sorted(self._places().items())]

    def items(self, name: str, correct: bool | None, offset: int, count: int) -> ItemPage:
        """Items in the order of the run; only correct or only wrong answers on request."""
        with _readable():
            rows = read_run(self._place(name), ("item",)).rows.item
            if correct is not None:
                rows = [row for row in rows if row["correct"] is not None and bool(row["correct"]) == correct]
            return ItemPage(len(rows), [_item(row) for row in rows[offset : offset + count]])

    def item(self, name: str, key: str) -> MeasuredItem:
        with _readable():
            rows = self._rows(name, key)
            return MeasuredItem(_item(rows.item[0]), _scores(rows))

    def frozen(self, name: str, key: str) -> RunResponse:
        with _readable():
            row = self._rows(name, key).item[0]
            settings = read_run(self._place(name), ()).settings
            reply = as_typed(tuple[int, ...], parse_json(row["reply"], "the response is damaged"), "reply")
            finish = as_typed(Finish, row["finish"], "finish")
            example = find_benchmark(settings["benchmark"]).example(row["number"])
            return RunResponse(settings["model"], example, Reply(list(reply), finish))

    def _rows(self, name: str, key: str) -> RunRows:
        rows = read_run(self._place(name), item=key).rows
        if not rows.item:
            raise InputError(f"there is no example {key[:100]!r} in this run")
        return rows

    def _places(self) -> dict[str, Path]:
        if self.folder is None or not os.path.isdir(self.folder):
            return {}
        folders = [self.folder, *(place for place in self.folder.iterdir() if os.path.isdir(place))]
        return {one_line(place.resolve().name): place for place in folders if any(place.glob(RUN_FILES))}

    def _place(self, name: str) -> Path:
        places = self._places()
        if name not in places:
            raise InputError(f"there is no run {name[:100]!r}; available runs: {', '.join(places) or 'none'}")
        return places[name]

    def _facts(self, name: str, place: Path) -> RunFacts:
        """A run that cannot be read is listed with the reason, and hides no other."""
        try:
            with _readable():
                run = read_run(place, ("item", "curve"))
                graded = [row["correct"] for row in run.rows.item if row["correct"] is not None]
                made, items = run.settings, len(run.rows.item)
                model = model_label(made["model"], bool(made["family"]))
                facts = RunFacts(name, model, made["benchmark"], items, sum(graded), len(graded), mean_rises(run))
                return _valid(facts)
        except InputError as error:
            return RunFacts(name, "", "", 0, 0, 0, error=one_line(error))


def _valid(facts: _Facts) -> _Facts:
    """The same facts, all of the types that they should have: columns of SQLite take anything."""
    return TypeAdapter(type(facts)).validate_python(vars(facts))


@contextmanager
def _readable() -> Iterator[None]:
    """A damaged run can fail anywhere."""
    try:
        yield
    except VTraceError:
        raise
    except Exception as error:
        raise InputError(f"this run is damaged: {type(error).__name__}: {first_line(error)}") from error


def _item(row: ItemRow) -> ItemFacts:
    correct = None if row["correct"] is None else bool(row["correct"])
    facts = ItemFacts(
        row["key"], row["number"], row["question"], row["response"], row["answer"], row["gold"], correct, row["tokens"]
    )
    return _valid(facts)


def _scores(rows: RunRows) -> list[ItemScores]:
    found = [_measured(rows, result) for result in rows.result]
    failed = [ItemScores(f["method"], f["target"], None, None, {}, {}, f["reason"]) for f in rows.failure]
    return list(map(_valid, found + failed))


def _measured(rows: RunRows, result: ResultRow) -> ItemScores:
    target, method = result["target"], result["method"]
    curves = [row for row in rows.curve if (row["target"], row["method"]) == (target, method)]
    evidence = [row for row in rows.evidence if (row["target"], row["method"]) == (target, method)]
    return ItemScores(
        method,
        target,
        result["image_share"],
        result["seconds"],
        {f"{row['setting']} {row['mode']}": {"rise": row["rise"], "mas": row["mas"]} for row in curves},
        {f"{row['kind']} {row['metric']}": row["value"] for row in evidence},
    )
