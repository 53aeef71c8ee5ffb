"""Answers that lmms-eval logged (`--log_samples`), to be explained instead of being generated again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import InputError, first_line
from ...types import Example
from ..benchmark import Benchmark


def with_samples(benchmark: Benchmark, path: Path) -> Benchmark:
    """The items of a benchmark that stand in the log, with the prompt and the response found there.

    The log names an item by its number in the dataset and has no pictures; those come from the benchmark.
    """
    samples = read_samples(path)
    if worst := next((number for number in samples if not 0 <= number < benchmark.size), None):
        raise InputError(
            f"{path.name} has an item {worst}, but {benchmark.name} has only {benchmark.size}; "
            "the log belongs to another benchmark or split"
        )
    numbers = list(samples)

    def example(number: int) -> Example:
        prompt, target, response = samples[numbers[number]]
        asked = benchmark.example(numbers[number])
        if target and asked.answer and not _same_target(target, asked):
            raise InputError(
                f"the log says that {target[:40]!r} is right and the benchmark {asked.answer[:40]!r}; "
                "they list their items in another order"
            )
        return replace(asked, question=prompt or asked.question, response=response)

    return replace(benchmark, size=len(numbers), key=lambda number: benchmark.key(numbers[number]), example=example)


def _same_target(target: str, asked: Example) -> bool:
    """A letter, a text, or 0 and 1 for no and yes: harnesses spell the right answer in their own way."""
    known = {asked.answer, *(asked.gold.answers if asked.gold else ())}
    known |= {{"yes": "1", "no": "0"}.get(str(answer).lower(), str(answer)) for answer in known}
    return target.strip().lower() in {str(answer).strip().lower() for answer in known}


def read_samples(path: Path) -> dict[int, tuple[str, str, str]]:
    """By number of the item: the prompt, the right answer, and what the model said, as logged."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {first_line(error)}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            response = _first_text(row.get("resps")) or _first_text(row.get("filtered_resps"))
            prompt = _first_text(row.get("input")) or _first_text(row.get("arguments"))
            found[int(row["doc_id"])] = (prompt, str(row.get("target") or ""), response)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InputError(f"line {number} of {path} is no sample of lmms-eval: {first_line(error)}") from error
        if not response:
            raise InputError(f"line {number} of {path} has no response")
    if not found:
        raise InputError(f"{path} has no samples")
    return found


def _first_text(cell: Any) -> str:
    """The text at the bottom of nested lists; requests and repeats wrap it."""
    while isinstance(cell, list) and cell:
        cell = cell[0]
    return cell if isinstance(cell, str) else ""
