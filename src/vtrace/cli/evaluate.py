"""`vtrace evaluate`, `vtrace table` and `vtrace study`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..system.files import write_atomically
from ..types import Progress, silent
from .options import DeviceOption, DtypeOption, Model, QuietOption, check_writable, parse_settings, progress

EXAMPLES = """
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
TABLE_EXAMPLES = """
Examples:\n
  vtrace table runs/first\n
  vtrace table runs/first --intervals --against ifr\n
  vtrace table runs/mmstar-Qwen3-VL-8B-Instruct runs/mathverse-Qwen3-VL-8B-Instruct     (the paper's main table)\n
  vtrace table runs/first --subsets correct,incorrect --format latex > table.tex\n
  vtrace table runs/first --parquet rows.parquet
"""
STUDY_EXAMPLES = """
Examples:\n
  vtrace study components --limit 50\n
  vtrace study gamma --out studies\n
  vtrace study list
"""
BenchmarkOption = Annotated[
    str, typer.Option("--benchmark", "-b", help="Which examples: a name (see: vtrace benchmarks), or your own file.")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder, Parquet or TSV file of the benchmark; default: the hub.")
]


def evaluate(
    model: Model = "pinhole",
    benchmark: BenchmarkOption = "shapes",
    data: DataOption = None,
    samples: Annotated[Path | None, typer.Option(help="Explain the answers in this log of lmms-eval.")] = None,
    methods: Annotated[
        str, typer.Option(help="Names with commas between them (see: vtrace methods), or 'instant', 'quick', 'all'.")
    ] = "vtrace,ifr,flashtrace,rollout,random",
    target: Annotated[str, typer.Option("--target", "-t", help="response, answer, or response,answer.")] = "response",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many examples.")] = None,
    shard: Annotated[str, typer.Option(help="i/n: every n-th example, beginning with the i-th.")] = "1/1",
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/BENCHMARK-MODEL.")] = None,
    blur: Annotated[
        float | None, typer.Option(min=0.0, help="Radius of the blur as a share of the longer side.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a perturbation curve.")] = 20,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Calibrate every method, as stage 3 does.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="METHOD.OPTION=VALUE", help="Change an option; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of methods that draw at random.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Token budget of a response.")] = 2048,
    system: Annotated[
        str | None, typer.Option(help="System prompt; '' for none. Default: the paper's.", show_default=False)
    ] = None,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Measure faithfulness on a benchmark. A run that was interrupted goes on where it stopped."""
    with progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from ..benchmarks.readers.lmms_eval import with_samples
        from ..benchmarks.registry import find_benchmark
        from ..faithfulness.plan import EvaluationPlan
        from ..faithfulness.run import evaluate as run
        from ..faithfulness.store import read_reasons
        from ..lvlm.load import load
        from ..methods.registry import parse_names
        from ..tracing.prompt import SYSTEM_PROMPT

        plan = EvaluationPlan(
            methods=tuple(parse_names(methods)), targets=tuple(dict.fromkeys(_names(target))), seed=seed, blur=blur,
            steps=steps, calibrated=calibrated, options=parse_settings(set_ or []), max_new_tokens=max_new_tokens,
            system=SYSTEM_PROMPT if system is None else system,
        )  # fmt: skip
        plan.check()
        part = _shard(shard)
        say(f"Opening {benchmark}")
        chosen = find_benchmark(benchmark, data)
        if samples:
            chosen = with_samples(chosen, samples)
        for file, reason in chosen.lost:
            print(f"vtrace: {file}: {reason}; going on without it", file=sys.stderr)
        place = out or Path("runs") / f"{chosen.name}-{Path(model).name}"
        say(f"Loading {model}")
        lvlm = load(model, dtype=dtype or None, device=device or None)
    with _bar(quiet) as report:
        path = run(lvlm, chosen, plan, place, limit=limit, shard=part, progress=report)
    for reason, count in read_reasons(path, "left_out").items():
        print(f"vtrace: left out {count}: {reason}", file=sys.stderr)
    for reason, count in read_reasons(path, "failure").items():
        print(f"vtrace: failed {count} times: {reason}", file=sys.stderr)
    print(f"wrote {path}", file=sys.stderr)
    print(path)


def table(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders or files of runs.")],
    methods: Annotated[str, typer.Option(help="Columns, in this order; default: all that every run has.")] = "",
    format: Annotated[str, typer.Option("--format", "-f", help="markdown, csv, latex or json.")] = "markdown",
    subsets: Annotated[str, typer.Option(help="all, correct, incorrect; several with commas.")] = "all",
    against: Annotated[str, typer.Option(help="Show differences to this method, and wins/ties/losses.")] = "",
    intervals: Annotated[bool, typer.Option("--intervals", help="Show 95 % bootstrap intervals.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence/--no-evidence", help="Rows on known evidence.")] = True,
    degenerate: Annotated[
        bool, typer.Option("--degenerate/--no-degenerate", help="Count items whose curve does not fall.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to stdout.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Also write the raw rows as Parquet: curves here, evidence in NAME-evidence.")
    ] = None,
) -> None:
    """Tables of runs in the paper's layout: means, intervals, wins, correct and incorrect answers apart."""
    evidence_rows = parquet and parquet.with_stem(f"{parquet.stem}-evidence")
    for place in (out, parquet, evidence_rows):
        check_writable(place)
    from ..faithfulness.render import RAW_TABLES, TABLE_FORMATS, export_parquet, latex, markdown, raw_rows
    from ..faithfulness.store import read_run
    from ..faithfulness.tables import common_methods, run_name, tabulate, together

    if format not in TABLE_FORMATS:
        raise InputError(f"unknown format {format!r}; use one of: {', '.join(TABLE_FORMATS)}")
    found = [read_run(place) for place in runs]
    chosen = _names(methods) if methods else common_methods(found) if len(found) > 1 else None
    tables = [
        tabulate(
            run, methods=chosen, subsets=_names(subsets), evidence=evidence, against=against or "vtrace",
            with_degenerate=degenerate,
        )
        for run in found
    ]  # fmt: skip
    names = [run_name(run) for run in found]
    alike = len(set(names)) < len(names)
    summary = tables[0] if len(tables) == 1 else together(tables, list(map(str, runs)) if alike else names)
    if against and against not in summary.methods:
        raise InputError(f"--against {against} is none of the columns; there are: {', '.join(summary.methods)}")
    rich = {"markdown": markdown, "latex": latex}.get(format)
    text = rich(summary, intervals, against or None) if rich else TABLE_FORMATS[format](summary)
    for rows, place in zip(RAW_TABLES, (parquet, evidence_rows), strict=True):
        if place and any(raw_rows(run, rows) for run in found):
            write_atomically(place, lambda file, rows=rows: export_parquet(found, rows, file))  # type: ignore[misc]
            print(f"wrote {place}", file=sys.stderr)
    if out:
        write_atomically(out, lambda file: file.write_text(text, "utf-8"))
        print(f"wrote {out}", file=sys.stderr)
    else:
        print(text, end="")


def study(
    name: Annotated[str, typer.Argument(help="Which study, or 'list'.")],
    model: Model = "pinhole",
    benchmark: BenchmarkOption = "shapes-dev",
    data: DataOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many examples; default: 50, fewer for slow studies.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder; each study gets one of its own in it.")] = Path("studies"),
    blur: Annotated[
        float | None, typer.Option(min=0.0, help="Radius of the blur as a share of the longer side.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of methods that draw at random.")] = 0,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """An ablation or figure of the paper, or one of our own: a table and a plot. Resumable."""
    from ..studies.registry import STUDIES, find_study

    if name == "list":
        for known in STUDIES.values():
            print(f"{known.name:<12} {known.about}")
        return
    find_study(name)
    with progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from ..benchmarks.registry import find_benchmark
        from ..lvlm.load import load
        from ..studies.run import run_study

        chosen = find_benchmark(benchmark, data)
        say(f"Loading {model}")
        lvlm = load(model, dtype=dtype or None, device=device or None)
    with _bar(quiet) as report:
        written = run_study(name, lvlm, chosen, out, limit=limit, seed=seed, blur=blur, progress=report)
    print(written[0].read_text("utf-8"), end="")
    for place in written:
        print(f"wrote {place}", file=sys.stderr)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit()):
        raise InputError(f"cannot read --shard {text!r}; write it as i/n, such as 2/4")
    return int(number), int(count)


@contextmanager
def _bar(quiet: bool) -> Iterator[Progress]:
    """A bar on stderr with rate and time left, when someone is watching."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None, pace="")
        began: list[tuple[int, float]] = []  # how many were there before this session, and when it began

        def report(done: int, total: int, label: str = "") -> None:
            if not began:
                began.append((done, time.monotonic()))
            ((before, then),) = began
            speed = pace(done - before, total - done, time.monotonic() - then)
            bar.update(task, completed=done, total=total, description=label or "done", pace=speed)

        yield report


def pace(measured: int, left: int, seconds: float) -> str:
    """Rate and time left, from what has been measured in so many seconds."""
    if not (measured and left and seconds):
        return ""
    return f"{60 * measured / seconds:.3g} a minute, {timedelta(seconds=round(left * seconds / measured))} left"
