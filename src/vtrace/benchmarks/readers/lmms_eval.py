"""Answers that lmms-eval logged (`--log_samples`), explained as logged instead of being generated again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, first_line
from ...types import Example
from ..benchmark import Benchmark
from .tables import json_lines


class LoggedSample(NamedTuple):
    """What the log says about one item."""

    item: int  # its number in the dataset
    prompt: str  # empty if it was not logged
    target: str  # the correct answer
    response: str


class DamagedLine(NamedTuple):
    """A line of the log that cannot be used, and why."""

    key: str
    error: InputError


def with_samples(benchmark: Benchmark, path: Path) -> Benchmark:
    """The items of a benchmark that are in the log, with the prompt and the response found there.

    The log refers to an item by its number in the dataset and has no pictures; those come from the benchmark. Loading
    the example of a damaged line fails, and only that.
    """
    samples = read_samples(path)
    items = [sample.item for sample in samples if isinstance(sample, LoggedSample)]
    outside = next((item for item in items if not 0 <= item < benchmark.size), None)
    if outside is not None:
        raise InputError(
            f"{path.name} has an item {outside}, but {benchmark.name} has only {benchmark.size}; "
            "the log belongs to another benchmark or split"
        )

    def key(number: int) -> str:
        logged = samples[number]
        return logged.key if isinstance(logged, DamagedLine) else benchmark.key(logged.item)

    def example(number: int) -> Example:
        logged = samples[number]
        if isinstance(logged, DamagedLine):
            raise logged.error
        asked = benchmark.example(logged.item)
        if logged.target and asked.answer and not _same_target(logged.target, asked):
            raise InputError(
                f"the right answer is {logged.target[:40]!r} in the log and {asked.answer[:40]!r} in the benchmark; "
                "they list their items in a different order"
            )
        return replace(asked, question=logged.prompt or asked.question, response=logged.response)

    return replace(benchmark, size=len(samples), key=key, example=example)


def _same_target(target: str, asked: Example) -> bool:
    """A letter, a text, or 0 and 1 for no and yes: harnesses write the correct answer in different ways."""
    known = {asked.answer, *(asked.gold.answers if asked.gold else ())}
    known |= {{"yes": "1", "no": "0"}.get(str(answer).lower(), str(answer)) for answer in known}
    return target.strip().lower() in {str(answer).strip().lower() for answer in known}


def read_samples(path: Path) -> list[LoggedSample | DamagedLine]:
    """Logged samples in order, the last one of each item; a log of nothing but damaged lines is refused."""
    samples: dict[int, LoggedSample] = {}
    damaged: list[DamagedLine] = []
    for number, row in json_lines(path):
        try:
            sample = _sample(row, f"line {number} of {path}")
            samples[sample.item] = sample
        except InputError as error:
            damaged.append(DamagedLine(f"line {number}", error))
    if not samples:
        raise damaged[0].error if damaged else InputError(f"{path} has no samples")
    return [*samples.values(), *damaged]


def _sample(row: Any, where: str) -> LoggedSample:
    if isinstance(row, InputError):
        raise row
    try:
        response = _first_text(row.get("resps")) or _first_text(row.get("filtered_resps"))
        prompt = _first_text(row.get("input")) or _first_text(row.get("arguments"))
        sample = LoggedSample(int(row["doc_id"]), prompt, str(row.get("target") or ""), response)
    except Exception as error:  # a row can be of any form
        raise InputError(f"{where} is not a sample of lmms-eval: {first_line(error)}") from error
    if not sample.response:
        raise InputError(f"{where} has no response")
    return sample


def _first_text(cell: object) -> str:
    """The text inside nested lists, which requests and repeats add."""
    while isinstance(cell, list) and cell:
        cell = cell[0]
    return cell if isinstance(cell, str) else ""
