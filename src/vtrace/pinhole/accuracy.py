"""Answer accuracy of an embedded model on Shapes: `python -m vtrace.pinhole.accuracy --json`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import torch
from PIL import Image
from transformers import PreTrainedModel, ProcessorMixin

from ..benchmarks.shapes.questions import ANSWER_PREFIX, TASKS
from ..benchmarks.shapes.sample import Sample, sample
from ..benchmarks.shapes.scene import TILED, WORLD, Split, World
from ..lvlm.dtypes import Dtype
from ..lvlm.joined import JOINED
from ..lvlm.load import load
from ..tracing.defaults import SYSTEM_PROMPT
from ..types import Example, Progress, silent

BATCH = 100
_GREY = (160, 160, 160)


class TaskAccuracy(TypedDict):
    """Accuracy on one task, and that of always giving the task's most frequent answer."""

    accuracy: float
    majority: float
    blank: NotRequired[float]  # with a blank picture


class AccuracyReport(TypedDict):
    """Accuracy on Shapes, as `accuracy.json` records it."""

    split: Split
    per_task: int  # questions
    mean: float
    exact_response: float  # share of responses that equal the gold one word for word
    tasks: dict[str, TaskAccuracy]


@torch.no_grad()
def respond(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    samples: Sequence[Sample | Example],
    pictures: Sequence[Image.Image],
    limit: int = 220,
    **generation: Any,
) -> list[str]:
    """Responses through the public interface of `transformers`, in one left-padded batch; greedy unless asked for."""
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
    inputs = processor(text=prompts, images=list(pictures), padding=True, padding_side="left", return_tensors="pt")
    ids = model.generate(**inputs.to(model.device), max_new_tokens=limit, **{"do_sample": False, **generation})
    return processor.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def answer_of(response: str) -> str:
    """The text after the last "Final answer:"; empty if there is none."""
    return response.rpartition(ANSWER_PREFIX)[2].strip() if ANSWER_PREFIX in response else ""


def blank_like(picture: Image.Image) -> Image.Image:
    """A grey picture of the same size."""
    return Image.new("RGB", picture.size, _GREY)


def measure_accuracy(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    split: Split,
    per_task: int,
    blank: bool = True,
    progress: Progress = silent,
    world: World = WORLD,
) -> AccuracyReport:
    """Accuracy per task with the picture and, unless `blank` is false, with a blank one."""
    samples = [sample(split, index, world) for index in range(per_task * len(TASKS))]
    order = sorted(samples, key=lambda s: (s.task, len(s.response)))  # batches of similar length waste fewer steps
    right: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    exact = 0
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        pictures = [s.image for s in part]
        for empty in (False, True) if blank else (False,):
            shown = [blank_like(picture) for picture in pictures] if empty else pictures
            for s, response in zip(part, respond(model, processor, part, shown), strict=True):
                right[empty][s.task] += answer_of(response) == s.answer
                exact += not empty and response == s.response
        progress(min(start + BATCH, len(order)), len(order))
    tasks: dict[str, TaskAccuracy] = {}
    for task in TASKS:
        answers = Counter(s.answer for s in samples if s.task == task)
        tasks[task] = {"accuracy": right[False][task] / per_task, "majority": max(answers.values()) / per_task}
        if blank:
            tasks[task]["blank"] = right[True][task] / per_task
    mean = sum(row["accuracy"] for row in tasks.values()) / len(tasks)
    return {"split": split, "per_task": per_task, "mean": mean, "exact_response": exact / len(samples), "tasks": tasks}


def dtype_of(model: str) -> Dtype:
    """What a model is measured in: a joined one in that of its training, because float32 takes many times as long."""
    return "bfloat16" if model in JOINED else "float32"


def world_of(model: str) -> World:
    """The boards that a model knows."""
    return TILED if model in JOINED else WORLD


def show_progress(done: int, total: int, label: str = "") -> None:
    """A counter on stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} questions", end="\n" if done == total else "", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pinhole")
    parser.add_argument("--split", default="test", choices=("dev", "test"))
    parser.add_argument("--per-task", type=int, default=200, help="questions per task")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    lvlm = load(args.model, dtype_of(args.model))
    result = measure_accuracy(
        lvlm.model, lvlm.processor, args.split, args.per_task, progress=show_progress, world=world_of(args.model)
    )
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'task':<12} accuracy  blank  majority   ({args.split} split, {args.per_task} questions per task)")
    for task, row in result["tasks"].items():
        print(f"{task:<12} {row['accuracy']:8.3f} {row['blank']:6.3f} {row['majority']:9.3f}")
    print(f"{'mean':<12} {result['mean']:8.3f}")


if __name__ == "__main__":
    main()
