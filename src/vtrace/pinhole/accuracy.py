"""Answer accuracy of an embedded model on Shapes: `python -m vtrace.pinhole.accuracy --json`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from ..benchmarks.shapes.questions import ANSWER_PREFIX, TASKS
from ..benchmarks.shapes.sample import Sample, sample
from ..benchmarks.shapes.scene import WORLD, World
from ..tracing.prompt import SYSTEM_PROMPT
from ..types import Example

BATCH = 100


@torch.no_grad()
def respond(
    model: Any, processor: Any, samples: Sequence[Sample | Example], pictures: list[Image.Image], limit: int = 220
) -> list[str]:
    """Greedy responses through the public interface of `transformers`, in one left-padded batch."""
    prompts = [
        processor.apply_chat_template(
            [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": s.question}]},
            ],
            add_generation_prompt=True,
        )
        for s in samples
    ]
    inputs = processor(text=prompts, images=pictures, padding=True, padding_side="left", return_tensors="pt")
    ids = model.generate(**inputs.to(model.device), max_new_tokens=limit, do_sample=False)
    return processor.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def answer_of(response: str) -> str:
    """The text after the last answer mark; empty if there is none."""
    return response.rpartition(ANSWER_PREFIX)[2].strip() if ANSWER_PREFIX in response else ""


def measure(
    model: Any,
    processor: Any,
    split: str,
    per_task: int,
    blank: bool = True,
    progress: bool = False,
    world: World = WORLD,
) -> dict:
    """Accuracy per task with the picture and with a blank one, beside always giving the most frequent answer."""
    samples = [sample(split, index, world) for index in range(per_task * len(TASKS))]
    order = sorted(samples, key=lambda s: (s.task, len(s.response)))  # alike lengths together: fewer idle steps
    right: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    exact = 0
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        pictures = [s.image for s in part]
        for empty in (False, True) if blank else (False,):
            shown = [Image.new("RGB", p.size, (160, 160, 160)) for p in pictures] if empty else pictures
            for s, response in zip(part, respond(model, processor, part, shown), strict=True):
                right[empty][s.task] += answer_of(response) == s.answer
                exact += not empty and response == s.response
        if progress:
            print(f"\r{min(start + BATCH, len(order))} of {len(order)} questions", end="", file=sys.stderr, flush=True)
    if progress:
        print(file=sys.stderr)
    tasks = {}
    for task in TASKS:
        answers = Counter(s.answer for s in samples if s.task == task)
        tasks[task] = {"accuracy": right[False][task] / per_task, "majority": max(answers.values()) / per_task}
        if blank:
            tasks[task]["blank"] = right[True][task] / per_task
    mean = sum(row["accuracy"] for row in tasks.values()) / len(tasks)
    return {"split": split, "per_task": per_task, "mean": mean, "exact_response": exact / len(samples), "tasks": tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--split", default="test", choices=("dev", "test"))
    parser.add_argument("--per-task", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    from ..lvlm.load import load

    lvlm = load(args.model)
    result = measure(lvlm.model, lvlm.processor, args.split, args.per_task, progress=sys.stderr.isatty())
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'task':<12} accuracy  blank  majority   ({args.split} split, {args.per_task} questions a task)")
    for task, row in result["tasks"].items():
        print(f"{task:<12} {row['accuracy']:8.3f} {row['blank']:6.3f} {row['majority']:9.3f}")
    print(f"{'mean':<12} {result['mean']:8.3f}")


if __name__ == "__main__":
    main()
