"""Accuracy of an embedded model on easy-VQA: `python -m vtrace.pinhole.easy_vqa_accuracy`.

Needs `pip install easy-vqa`. easy-VQA shows one shape on a white background, words its questions differently, and has
colours and shapes that never occur in Shapes. The model was not trained on it, so this measures how well it generalises
beyond Shapes.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from transformers import PreTrainedModel, ProcessorMixin

from ..benchmarks.grading import grade
from ..benchmarks.registry import find_benchmark
from ..benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES
from ..lvlm.load import load
from ..tracing.spans import find_answer
from ..types import Example, Progress, Span, silent
from .accuracy import BATCH, blank_like, respond, show_progress


class GroupAccuracy(TypedDict):
    """Accuracy on one group of questions, and that of always giving its most frequent answer."""

    items: int
    accuracy: float
    blank: float  # with a blank picture
    majority: float
    unparsed: float


def group_of(example: Example) -> str:
    """The kind of question, and whether the answer is a word of Shapes."""
    if example.answer in ("yes", "no"):
        return "yes or no"
    return "named, a word of Shapes" if example.answer in (*SHAPE_COLOURS, *SHAPES) else "named, another word"


def measure_easy_vqa(
    model: PreTrainedModel, processor: ProcessorMixin, examples: Sequence[Example], progress: Progress = silent
) -> dict[str, GroupAccuracy]:
    """Accuracy by group of questions, with the picture and with a blank one."""
    counts: dict[str, Counter[str]] = {}
    answers: dict[str, Counter[str]] = {}
    for start in range(0, len(examples), BATCH):
        part = examples[start : start + BATCH]
        for example in part:
            answers.setdefault(group_of(example), Counter())[str(example.answer)] += 1
        for blank in (False, True):
            shown = [blank_like(e.images[0]) if blank else e.images[0].convert("RGB") for e in part]
            for example, response in zip(part, respond(model, processor, part, shown, 100), strict=True):
                span = find_answer(response, Span(0, len(response))).answer
                verdict = grade(example, response[slice(*span)] if span else None)
                counts.setdefault(group_of(example), Counter())[f"{'blank ' if blank else ''}{verdict}"] += 1
        progress(min(start + BATCH, len(examples)), len(examples))
    return {group: _shares(found, answers[group]) for group, found in sorted(counts.items())}


def _shares(found: Counter[str], answers: Counter[str]) -> GroupAccuracy:
    items = answers.total()
    return {
        "items": items,
        "accuracy": found["correct"] / items,
        "blank": found["blank correct"] / items,
        "majority": max(answers.values()) / items,
        "unparsed": found["unparsed"] / items,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of an embedded model on easy-VQA.")
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--data", type=Path, help="folder with questions.json and images; default: the package")
    parser.add_argument("--limit", type=int, default=1000, help="questions, spread evenly over the test split")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    benchmark = find_benchmark("easy-vqa", args.data)
    count = min(args.limit, benchmark.size)
    examples = [benchmark.example(number * benchmark.size // count) for number in range(count)]
    lvlm = load(args.model)
    result = measure_easy_vqa(lvlm.model, lvlm.processor, examples, progress=show_progress)
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'easy-VQA':<24} items  accuracy  blank  majority  unparsed")
    for group, row in result.items():
        print(
            f"{group:<24} {row['items']:5d} {row['accuracy']:9.3f} {row['blank']:6.3f} {row['majority']:9.3f} "
            f"{row['unparsed']:9.3f}"
        )


if __name__ == "__main__":
    main()
