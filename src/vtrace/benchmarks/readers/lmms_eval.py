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

    prompt: str  # empty if it was not logged
    target: str  # the correct answer
    response: str


def with_samples(benchmark: Benchmark, path: Path) -> Benchmark:
    """The items of a benchmark that are in the log, with the prompt and the response found there.

    The log refers to an item by its number in the dataset and has no pictures; those come from the benchmark.
    """
    samples = read_samples(path)
    outside = next((number for number in samples if not 0 <= number < benchmark.size), None)
    if outside is not None:
        raise InputError(
            f"{path.name} has an item {outside}, but {benchmark.name} has only {benchmark.size}; "
            "the log belongs to another benchmark or split"
        )
    numbers = list(samples)

    def example(number: int) -> Example:
        logged = samples[numbers[number]]
        asked = benchmark.example(numbers[number])
        if logged.target and asked.answer and not _same_target(logged.target, asked):
            raise InputError(
                f"the right answer is {logged.target[:40]!r} in the log and {asked.answer[:40]!r} in the benchmark; "
                "they list their items in a different order"
            )
        return replace(asked, question=logged.prompt or asked.question, response=logged.response)

    return replace(benchmark, size=len(numbers), key=lambda number: benchmark.key(numbers[number]), example=example)


def _same_target(target: str, asked: Example) -> bool:
    """A letter, a text, or 0 and 1 for no and yes: harnesses write the correct answer in different ways."""
    known = {asked.answer, *(asked.gold.answers if asked.gold else ())}
    known |= {{"yes": "1", "no": "0"}.get(str(answer).lower(), str(answer)) for answer in known}
    return target.strip().lower() in {str(answer).strip().lower() for answer in known}


def read_samples(path: Path) -> dict[int, LoggedSample]:
    """Logged samples by the number of their item."""
    found = {}
    for number, row in json_lines(path):
        if isinstance(row, InputError):
            raise row
        try:
            item, sample = _sample(row)
        except Exception as error:  # a row can be of any form
            raise InputError(f"line {number} of {path} is not a sample of lmms-eval: {first_line(error)}") from error
        if not sample.response:
            raise InputError(f"line {number} of {path} has no response")
        found[item] = sample
    if not found:
        raise InputError(f"{path} has no samples")
    return found


def _sample(row: Any) -> tuple[int, LoggedSample]:
    response = _first_text(row.get("resps")) or _first_text(row.get("filtered_resps"))
    prompt = _first_text(row.get("input")) or _first_text(row.get("arguments"))
    return int(row["doc_id"]), LoggedSample(prompt, str(row.get("target") or ""), response)


def _first_text(cell: object) -> str:
    """The text inside nested lists, which requests and repeats add."""
    while isinstance(cell, list) and cell:
        cell = cell[0]
    return cell if isinstance(cell, str) else ""
