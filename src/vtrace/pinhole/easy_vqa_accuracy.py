"""An embedded model on pictures by others: `python -m vtrace.pinhole.easy_vqa_accuracy`, after `pip install easy-vqa`.

easy-VQA shows one shape on a white ground and asks in its own words; some of its colours and shapes never occur in
Shapes. The model was not trained on it, so this measures how far it goes beyond its world, not how good it is in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from ..benchmarks.grading import grade
from ..benchmarks.registry import find_benchmark
from ..benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES
from ..tracing.spans import find_answer
from ..types import Example, Span
from .accuracy import BATCH, respond

GREY = (160, 160, 160)


def group_of(example: Example) -> str:
    """What is asked for, and whether the answer is a word of Shapes."""
    if example.answer in ("yes", "no"):
        return "yes or no"
    return "named, a word of Shapes" if example.answer in (*SHAPE_COLOURS, *SHAPES) else "named, another word"


def measure(model: Any, processor: Any, examples: list[Example], progress: bool = False) -> dict[str, dict[str, Any]]:
    """Per group: accuracy with the picture and with a blank one, beside always giving the most frequent answer."""
    counts: dict[str, Counter[str]] = {}
    answers: dict[str, Counter[str]] = {}
    for start in range(0, len(examples), BATCH):
        part = examples[start : start + BATCH]
        for example in part:
            answers.setdefault(group_of(example), Counter())[str(example.answer)] += 1
        for blank in (False, True):
            shown = [Image.new("RGB", e.images[0].size, GREY) if blank else e.images[0].convert("RGB") for e in part]
            for example, response in zip(part, respond(model, processor, part, shown, 100), strict=True):
                span = find_answer(response, Span(0, len(response))).answer
                verdict = grade(example, response[slice(*span)] if span else None)
                counts.setdefault(group_of(example), Counter())[f"{'blank ' if blank else ''}{verdict}"] += 1
        if progress:
            print(f"\r{min(start + BATCH, len(examples))} of {len(examples)} questions", end="", file=sys.stderr)
    if progress:
        print(file=sys.stderr)
    return {
        group: {
            "items": (items := answers[group].total()), "accuracy": found["correct"] / items,
            "blank": found["blank correct"] / items, "majority": max(answers[group].values()) / items,
            "unparsed": found["unparsed"] / items,
        }
        for group, found in sorted(counts.items())
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="An embedded model on easy-VQA, a test set by others.")
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--data", type=Path, help="folder with questions.json and images; default: the package")
    parser.add_argument("--limit", type=int, default=1000, help="questions, spread evenly over the test split")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    from ..lvlm.load import load

    benchmark = find_benchmark("easy-vqa", args.data)
    count = min(args.limit, benchmark.size)
    examples = [benchmark.example(number * benchmark.size // count) for number in range(count)]
    lvlm = load(args.model)
    result = measure(lvlm.model, lvlm.processor, examples, progress=sys.stderr.isatty())
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
