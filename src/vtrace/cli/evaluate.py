"""`vtrace evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .engines import (
    AddressOption,
    CpusOption,
    EngineChoice,
    EngineOption,
    GpusOption,
    WorkerLogsOption,
    WorkersOption,
)
from .events import EvaluationEvents
from .options import (
    BatchOption,
    BenchmarkBudgetOption,
    BlurOption,
    CalibratedOption,
    ConcurrencyOption,
    DataOption,
    DeviceOption,
    DtypeOption,
    EndpointOption,
    EvaluatedBenchmarkOption,
    EvaluatedModelOption,
    FamilyOption,
    LimitOption,
    MethodsOption,
    QuietOption,
    RefineOption,
    SamplesOption,
    SeedOption,
    ServedModelOption,
    SetOption,
    ShardOption,
    SystemOption,
    TimeoutOption,
    parse_endpoint,
    parse_settings,
    parse_shard,
    split_names,
)
from .outputs import print_note
from .progress import spinner

EVALUATE_EXAMPLES = """
Examples:\n
  vtrace evaluate --limit 20\n
  vtrace evaluate --benchmark mmstar --model Qwen/Qwen3-VL-8B-Instruct --methods all\n
  vtrace evaluate --benchmark mmmu --data data/MMMU --model Qwen/Qwen3-VL-8B-Instruct\n
  vtrace evaluate --model smollm2 --benchmark facts --methods vtrace,ifr,random --limit 20 --out runs/facts\n
  vtrace evaluate --benchmark mine.jsonl --methods vtrace,ifr\n
  vtrace trace --limit 20 --out traces && vtrace evaluate --traces traces --methods all\n
  vtrace evaluate --benchmark mmstar --samples samples_mmstar.jsonl --system 'You are a helpful assistant.'\n
  vtrace evaluate --methods vtrace,ifr,rollout,random --target response,answer --out runs/first\n
  vtrace evaluate --methods flowtracer --set flowtracer.mode=flow --out runs/flow\n
  vtrace evaluate --methods vtrace,ifr --refine 32 --out runs/refined\n
  vtrace evaluate --workers 8 --out runs/first     (eight processes; on a machine with GPUs, one GPU each)\n
  vtrace evaluate --engine ray --workers 64 --gpus-per-worker 1 --address 10.0.0.1:6379 --out runs/first\n
  vtrace evaluate --shard 2/4 --out runs/first     (the second of four machines, in the same folder)
"""


def evaluate_command(
    model: EvaluatedModelOption = "",
    family: FamilyOption = "",
    benchmark: EvaluatedBenchmarkOption = "",
    data: DataOption = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Measure the responses that vtrace trace froze in this folder."),
    ] = None,
    samples: SamplesOption = None,
    methods: MethodsOption = "vtrace,ifr,flashtrace,rollout,random",
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="TARGETS", help="response, answer, or response,answer.")
    ] = "response",
    limit: LimitOption = None,
    shard: ShardOption = "1/1",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the run. Default: runs/BENCHMARK-MODEL.")
    ] = None,
    blur: BlurOption = None,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Number of steps in a perturbation curve.")] = 20,
    calibrated: CalibratedOption = False,
    refine: RefineOption = None,
    set_: SetOption = None,
    seed: SeedOption = 0,
    max_new_tokens: BenchmarkBudgetOption = None,
    system: SystemOption = None,
    batch: BatchOption = 16,
    endpoint: EndpointOption = "",
    served_model: ServedModelOption = "",
    concurrency: ConcurrencyOption = 8,
    timeout: TimeoutOption = 600.0,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    workers: WorkersOption = 1,
    engine: EngineOption = None,
    address: AddressOption = "",
    gpus_per_worker: GpusOption = None,
    cpus_per_worker: CpusOption = None,
    worker_logs: WorkerLogsOption = False,
    json_: Annotated[bool, typer.Option("--json", help="Print events as JSON, one object per line.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Measure faithfulness on a benchmark. Interrupted runs resume, also with another number of workers or shards.

    Responses are frozen first, in the folder of the run; --traces reads them from elsewhere.
    """
    where = EngineChoice(workers, engine, address, gpus_per_worker, cpus_per_worker, worker_logs)
    where.check()
    server = parse_endpoint(endpoint, served_model, concurrency, timeout)
    if traces and server:
        raise InputError("--traces and --endpoint are mutually exclusive")
    if server and not where.in_this_process:
        raise InputError("workers do not ask an endpoint; freeze responses with vtrace trace, then use --traces")
    from ..benchmarks.registry import open_benchmark
    from ..faithfulness.plan import EvaluationPlan, check_targets
    from ..faithfulness.traces import read_traces
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..lvlm.devices import check_device_here
    from ..lvlm.dtypes import find_dtype
    from ..lvlm.family_choice import find_family
    from ..methods.catalogue import parse_names, refine_all

    frozen = read_traces(traces).settings if traces else None
    model = model or (frozen["model"] if frozen else "pinhole")
    family = family or (frozen["family"] if frozen else "")
    benchmark = benchmark or (frozen["benchmark"] if frozen else "shapes")
    names, options = refine_all(parse_names(methods), parse_settings(set_), refine)
    plan = EvaluationPlan(
        methods=tuple(names),
        targets=check_targets(split_names(target)),
        seed=seed,
        blur=blur,
        steps=steps,
        calibrated=calibrated,
        options=options,
        batch=batch,
    )
    part = parse_shard(shard)
    reach_checkpoint(model)
    if where.in_this_process:  # workers of a cluster may have what this machine has not
        check_device_here(device)
    with spinner(quiet) as report:
        report(0, 0, f"Opening {benchmark}")
        chosen = open_benchmark(benchmark, data, samples)
        plan = replace(
            plan,
            max_new_tokens=frozen["max_new_tokens"] if frozen else max_new_tokens or chosen.max_new_tokens,
            system=system if system is not None else frozen["system"] if frozen else chosen.system,
        )
        for file, reason in chosen.lost:
            print_note(f"skipping {file}: {reason}")
        place = out or Path("runs") / f"{chosen.name}-{Path(model).name}"
        report(0, 0, "Loading PyTorch and transformers")
        from ..faithfulness.run import chosen_items, evaluate, evaluate_on
        from ..faithfulness.store import read_reasons
        from ..faithfulness.worker import evaluation_recipe
        from ..lvlm.load import load

        plan.check()
        if where.in_this_process:
            report(0, 0, f"Loading {model}")
            lvlm = load(model, find_dtype(dtype), device or None, family=find_family(family))
    events = EvaluationEvents(json_, quiet)
    if where.in_this_process:
        with events.progress() as report:
            path = evaluate(
                lvlm, chosen, plan, place, limit=limit, shard=part, traces=traces, endpoint=server, progress=report
            )
    else:
        recipe = evaluation_recipe(model, dtype, device, chosen, (benchmark, data, samples), plan, family)
        items = len(chosen_items(chosen, limit, part))
        with (
            events.progress() as report,
            where.open(recipe, device, chosen, plan.responses, items, events.worker) as opened,
        ):
            report(0, items, f"starting {min(workers, items)} workers")
            path = evaluate_on(opened, chosen, plan, place, limit=limit, shard=part, traces=traces, progress=report)
    events.finished(str(path), read_reasons(path, "left_out"), read_reasons(path, "failure"))
