"""Benchmarks: numbered examples, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..types import Example
from . import easy_vqa
from .benchmark import Benchmark
from .hallusionbench import HALLUSIONBENCH
from .mathverse import MATHVERSE
from .mathvision import MATHVISION, MATHVISION_MINI
from .mathvista import MATHVISTA
from .mmmu import MMMU, MMMU_PRO, MMMU_PRO_4, MMMU_PRO_VISION
from .mmstar import MMSTAR
from .own_questions import is_own, open_own
from .published import Source, open_source
from .realworldqa import REALWORLDQA
from .shapes.sample import Sample, sample
from .visualpuzzles import VISUALPUZZLES

__all__ = ["BENCHMARKS", "Benchmark", "as_example", "describe", "find_benchmark"]

SHAPES_SIZE = 2400
SOURCES = {
    source.name: source
    for source in (
        MMSTAR, MATHVISTA, MMMU, MMMU_PRO, MMMU_PRO_4, MMMU_PRO_VISION, MATHVERSE, VISUALPUZZLES, HALLUSIONBENCH,
        REALWORLDQA, MATHVISION, MATHVISION_MINI,
    )
}  # fmt: skip


def as_example(item: Sample) -> Example:
    """A Shapes sample as an example with known evidence."""
    return Example((item.image,), item.question, item.key, item.answer, item.evidence_boxes, item.evidence_words)


def _shapes(name: str, split: str) -> Callable[[Path | None], Benchmark]:
    def open_shapes(data: Path | None) -> Benchmark:
        if data is not None:
            raise InputError(f"{name} is made by this package; leave out --data")
        return Benchmark(
            name,
            SHAPES_SIZE,
            lambda number: f"{split}-{number:05d}",
            lambda n: as_example(sample(split, n)),
            blur=1 / 4,
        )

    return open_shapes


BENCHMARKS: dict[str, Callable[[Path | None], Benchmark]] = {
    "shapes": _shapes("shapes", "test"),
    "shapes-dev": _shapes("shapes-dev", "dev"),
    easy_vqa.NAME: easy_vqa.open_easy_vqa,
    **{name: partial(open_source, source) for name, source in SOURCES.items()},
}


def find_benchmark(name: str, data: Path | None = None) -> Benchmark:
    """A benchmark by its name, from its usual place or from `data`; or a user's own, by its file or folder."""
    if name in BENCHMARKS:
        return BENCHMARKS[name](data)
    if is_own(name):
        return open_own(Path(name))
    raise InputError(
        f"unknown benchmark {name!r}; give a CSV or JSONL file, a folder, or one of: {', '.join(BENCHMARKS)}"
    )


def describe() -> list[dict[str, Any]]:
    """What there is, without opening any of it."""
    embedded = "made by this package"
    made = [
        {"name": "shapes", "title": "Shapes (test)", "size": SHAPES_SIZE, "licence": "Apache 2.0", "from": embedded},
        {"name": "shapes-dev", "title": "Shapes (dev)", "size": SHAPES_SIZE, "licence": "Apache 2.0", "from": embedded},
        {
            "name": easy_vqa.NAME,
            "title": "easy-VQA (test)",
            "size": easy_vqa.SIZE,
            "licence": "MIT",
            "from": "pip install easy-vqa",
        },
    ]
    return made + [_facts(source) for source in SOURCES.values()]


def _facts(source: Source) -> dict[str, Any]:
    return {
        "name": source.name, "title": source.title, "size": source.size, "licence": source.licence,
        "from": f"https://huggingface.co/datasets/{source.hub[0]}", "hub": list(source.hub),
        "files": list(source.files), "tsv": f"{source.tsv}.tsv",
    }  # fmt: skip
