"""`vtrace trace`."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .options import (
    BatchOption,
    BenchmarkBudgetOption,
    BenchmarkOption,
    ConcurrencyOption,
    DataOption,
    DeviceOption,
    DtypeOption,
    EndpointOption,
    FamilyOption,
    JsonOption,
    LimitOption,
    ModelOption,
    QuietOption,
    SamplesOption,
    ServedModelOption,
    ShardOption,
    SystemOption,
    TimeoutOption,
    parse_endpoint,
    parse_shard,
)
from .outputs import print_note, print_written
from .progress import progress_bar, spinner

TRACE_EXAMPLES = """
Examples:\n
  vtrace trace --limit 20 --out traces && vtrace evaluate --traces traces\n
  vtrace trace --benchmark mmstar --model Qwen/Qwen3-VL-8B-Instruct --batch 32 --out traces/mmstar\n
  vtrace trace --benchmark mmstar --model Qwen/Qwen3-VL-8B-Instruct --endpoint http://localhost:8000/v1
  --served-model Qwen/Qwen3-VL-8B-Instruct --out traces/mmstar\n
  vtrace trace --benchmark mine.jsonl --shard 2/4 --out traces/mine     (the second of four machines)
"""


def trace_command(
    model: ModelOption = "pinhole",
    family: FamilyOption = "",
    benchmark: BenchmarkOption = "shapes",
    data: DataOption = None,
    samples: SamplesOption = None,
    limit: LimitOption = None,
    shard: ShardOption = "1/1",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the responses. Default: traces/BENCHMARK-MODEL.")
    ] = None,
    endpoint: EndpointOption = "",
    served_model: ServedModelOption = "",
    concurrency: ConcurrencyOption = 8,
    timeout: TimeoutOption = 600.0,
    batch: BatchOption = 16,
    max_new_tokens: BenchmarkBudgetOption = None,
    system: SystemOption = None,
    json: JsonOption = False,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Ask a model about a benchmark and freeze its responses, for `vtrace evaluate --traces`. Interrupted runs resume.

    With --endpoint, a server generates the responses and --model says whose tokens they are; no weights are loaded.
    """
    server = parse_endpoint(endpoint, served_model, concurrency, timeout)
    if server and family:
        raise InputError("--family auto cannot be combined with --endpoint: probing needs the weights of the model")
    from ..benchmarks.registry import open_benchmark
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..lvlm.devices import check_device_here

    part = parse_shard(shard)
    reach_checkpoint(model)
    check_device_here(device)
    with spinner(quiet) as report:
        report(0, 0, f"Opening {benchmark}")
        chosen = open_benchmark(benchmark, data, samples)
        report(0, 0, "Loading PyTorch and transformers")
        from ..faithfulness.freeze import freeze_responses
        from ..faithfulness.plan import ResponsePlan
        from ..faithfulness.run import chosen_items
        from ..faithfulness.traces import summarise_traces
        from ..lvlm.dtypes import find_dtype
        from ..lvlm.family_choice import find_family
        from ..lvlm.load import load, load_without_weights

        plan = ResponsePlan(max_new_tokens or chosen.max_new_tokens, chosen.system if system is None else system, batch)
        numbers = chosen_items(chosen, limit, part)
        place = out or Path("traces") / f"{chosen.name}-{Path(model).name}"
        report(0, 0, f"Loading {model}")
        if server:
            lvlm = load_without_weights(model)
        else:
            lvlm = load(model, find_dtype(dtype), device or None, family=find_family(family))
    for file, reason in chosen.lost:
        print_note(f"skipping {file}: {reason}")
    with progress_bar(quiet) as report:
        path = freeze_responses(lvlm, chosen, plan, place, numbers, endpoint=server, shard=part, progress=report)
    found = summarise_traces(path)
    for line in found.describe():
        print_note(line)
    print_written([path])
    print(jsonlib.dumps({"file": str(path), **found._asdict()}, indent=1, ensure_ascii=False) if json else path)
