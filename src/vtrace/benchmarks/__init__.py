"""Benchmarks: numbered examples, and how an answer is graded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..errors import InputError
from ..types import Example
from .shapes import Sample, sample


@dataclass(frozen=True)
class Benchmark:
    """A source of examples. `blur` is the radius at which its pictures no longer show the answer."""

    name: str
    size: int
    example: Callable[[int], Example]
    grade: Callable[[Example, str], bool]
    blur: float  # share of the longer side of a picture


def as_example(item: Sample) -> Example:
    """A Shapes sample as an example with known evidence."""
    return Example((item.image,), item.question, item.key, item.answer, item.evidence_boxes, item.evidence_words)


def same_words(example: Example, answer: str) -> bool:
    """Equal up to case, blanks and a closing full stop."""
    return _plain(answer) == _plain(example.answer or "")


def _plain(text: str) -> str:
    return " ".join(text.lower().rstrip(" .").split())


def _shape(split: str, index: int) -> Example:
    return as_example(sample(split, index))


BENCHMARKS = {
    "shapes": Benchmark("shapes", 2400, partial(_shape, "test"), same_words, blur=1 / 4),
    "shapes-dev": Benchmark("shapes-dev", 2400, partial(_shape, "dev"), same_words, blur=1 / 4),
}


def find_benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
