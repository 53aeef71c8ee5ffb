"""`vtrace evaluate`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .options import (
    BenchmarkOption,
    BlurOption,
    BudgetOption,
    CalibratedOption,
    DataOption,
    DeviceOption,
    DtypeOption,
    MethodsOption,
    ModelOption,
    QuietOption,
    SeedOption,
    SetOption,
    parse_settings,
    split_names,
)
from .outputs import print_written
from .progress import progress_bar, spinner

if TYPE_CHECKING:
    from ..faithfulness.store import Shard

EVALUATE_EXAMPLES = """
Examples:\n
  vtrace evaluate --limit 20\n
  vtrace evaluate --benchmark mmstar --model Qwen/Qwen3-VL-8B-Instruct --methods all\n
  vtrace evaluate --benchmark mmmu --data data/MMMU --model Qwen/Qwen3-VL-8B-Instruct\n
  vtrace evaluate --benchmark mine.jsonl --methods vtrace,ifr\n
  vtrace evaluate --benchmark mmstar --samples samples_mmstar.jsonl --system 'You are a helpful assistant.'\n
  vtrace evaluate --methods vtrace,ifr,rollout,random --target response,answer --out runs/first\n
  vtrace evaluate --methods flowtracer --set flowtracer.mode=flow --out runs/flow\n
  vtrace evaluate --shard 2/4 --out runs/first     (the second of four machines, in the same folder)
"""


def evaluate_command(
    model: ModelOption = "pinhole",
    benchmark: BenchmarkOption = "shapes",
    data: DataOption = None,
    samples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Explain the responses in this lmms-eval log.")
    ] = None,
    methods: MethodsOption = "vtrace,ifr,flashtrace,rollout,random",
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="TARGETS", help="response, answer, or response,answer.")
    ] = "response",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Evaluate only the first N examples.")] = None,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Evaluate every Nth example, starting with the Ith.")
    ] = "1/1",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the run. Default: runs/BENCHMARK-MODEL.")
    ] = None,
    blur: BlurOption = None,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Number of steps in a perturbation curve.")] = 20,
    calibrated: CalibratedOption = False,
    set_: SetOption = None,
    seed: SeedOption = 0,
    max_new_tokens: BudgetOption = 2048,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="System prompt; '' for none. Default: the paper's.", show_default=False),
    ] = None,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Measure faithfulness on a benchmark. Interrupted runs resume."""
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..benchmarks.readers.lmms_eval import with_samples
        from ..benchmarks.registry import find_benchmark
        from ..faithfulness.plan import EvaluationPlan, check_targets
        from ..faithfulness.run import evaluate
        from ..faithfulness.store import read_reasons
        from ..lvlm.load import find_dtype, load
        from ..methods.registry import parse_names
        from ..tracing.prompt import SYSTEM_PROMPT

        plan = EvaluationPlan(
            methods=tuple(parse_names(methods)),
            targets=check_targets(split_names(target)),
            seed=seed,
            blur=blur,
            steps=steps,
            calibrated=calibrated,
            options=parse_settings(set_),
            max_new_tokens=max_new_tokens,
            system=SYSTEM_PROMPT if system is None else system,
        )
        plan.check()
        part = _parse_shard(shard)
        report(0, 0, f"Opening {benchmark}")
        chosen = find_benchmark(benchmark, data)
        if samples:
            chosen = with_samples(chosen, samples)
        for file, reason in chosen.lost:
            print(f"vtrace: skipping {file}: {reason}", file=sys.stderr)
        place = out or Path("runs") / f"{chosen.name}-{Path(model).name}"
        report(0, 0, f"Loading {model}")
        lvlm = load(model, dtype=find_dtype(dtype), device=device or None)
    with progress_bar(quiet) as report:
        path = evaluate(lvlm, chosen, plan, place, limit=limit, shard=part, progress=report)
    for reason, count in read_reasons(path, "left_out").items():
        print(f"vtrace: left out {count}: {reason}", file=sys.stderr)
    for reason, count in read_reasons(path, "failure").items():
        print(f"vtrace: failed {count} times: {reason}", file=sys.stderr)
    print_written([path])
    print(path)


def _parse_shard(text: str) -> Shard:
    from ..faithfulness.store import Shard

    number, _, count = text.partition("/")
    if not re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", text):
        raise InputError(f"cannot read --shard {text!r}; write it as I/N, such as 2/4")
    return Shard(int(number), int(count))
