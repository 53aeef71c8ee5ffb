"""Measure everything that docs/results.md says, and write it: `make results`. Resumable; see --help."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch

from vtrace.benchmarks import find_benchmark
from vtrace.faithfulness.run import Plan, evaluate
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import Line, Table, markdown, tabulate
from vtrace.files import write_atomically
from vtrace.lvlm import EMBEDDED, load
from vtrace.methods import METHODS
from vtrace.studies import PROFILES, STUDIES
from vtrace.studies.run import run_study

HERE = Path(__file__).parent
# On every example: the paper's quick methods, ours, and noise. All others, leave-one-out among them, run on a subset,
# and the slowest one, a minute for an explanation, on a smaller one.
MAIN = ("vtrace", "vtrace-ordered", "ifr", "ifr-multihop", "flashtrace", "flowtracer", "rollout", "attnlrp", "random")
SLOWEST = "heta"
TARGETS = ("response", "answer")
TIMED = ("efficiency",)  # studies that measure time, and so run alone
RUNS = ("others", "main", "slowest")  # on the test split
BOTH = ("components", "ordered")  # studies of every model; the others are of Pinhole alone
CURVES = ("RISE ins", "RISE del", "MAS ins", "MAS del")
WHERE = [(target, setting) for target in TARGETS for setting in ("image", "joint")]


def measure(args: argparse.Namespace) -> None:
    """All runs and studies that are missing: all methods first, as some metrics need leave-one-out with them."""
    rounds = [[(name, kind, part) for name in args.models for part in range(args.workers)] for kind in RUNS]
    studies = [(name, s, 0) for name in args.models for s in args.studies if name == "pinhole" or s in BOTH]
    rounds.append([job for job in studies if job[1] not in TIMED])
    if args.workers == 1:
        for job in chain(*rounds):
            run_job(args, *job)
    else:  # processes of one thread each: on a CPU, two of them do more than one with two threads
        with ProcessPoolExecutor(args.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            for jobs in rounds:  # one after the other, as a share of the examples is one file
                for done in [pool.submit(run_job, args, *job) for job in jobs]:
                    done.result()
    for job in studies:
        if job[1] in TIMED:
            run_job(args, *job)


def run_job(args: argparse.Namespace, name: str, kind: str, part: int) -> None:
    """A share of the test split, or a study; its minutes are written down, over interruptions."""
    lvlm, folder, began = load(name), args.work / name, time.monotonic()
    label = f"{name}, {kind} {part + 1}/{args.workers}:" if kind in RUNS else f"{name}, {kind}:"

    def report(done: int, total: int, key: str) -> None:
        print(f"{label} {done}/{total} ({(time.monotonic() - began) / 60:.1f} min)", file=sys.stderr, flush=True)

    try:
        if kind in RUNS:
            rest = tuple(m for m in METHODS if m != SLOWEST)
            plans = {"main": (MAIN, args.items), "others": (rest, args.others), "slowest": ((SLOWEST,), args.slowest)}
            methods, limit = plans[kind]
            test, shard = find_benchmark("shapes"), (part + 1, args.workers)
            evaluate(lvlm, test, Plan(methods, TARGETS), folder / "test", limit=limit, shard=shard, report=report)
        else:
            limit = min(args.study_items, getattr(PROFILES.get(kind), "limit", args.study_items))
            run_study(kind, lvlm, find_benchmark("shapes-dev"), folder / "studies", limit=limit, report=report)
    finally:
        path = folder / "minutes" / f"{kind}-{part + 1}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() else 0.0
        spent = (time.monotonic() - began) / 60 / (1 if kind in TIMED else args.workers)
        write_atomically(path, lambda file: file.write_text(json.dumps(known + spent)))


def page(args: argparse.Namespace) -> str:
    """The page, every number and every judgement from the runs."""
    return "\n".join([HEAD.format(seed=0), *(chapter(args, name) for name in args.models)])


HEAD = """# Results on the embedded models

Written by `make results` (`docs/results.py`), seed {seed}; every number and every judgement on this page is computed
from those runs. Shapes test split; perturbation as in the paper (K = 20 groups, likelihood of the whole frozen
response, blur in the picture, pad tokens for words). *Better*, *worse* and *loses* mean that the 95 % bootstrap
interval of the paired difference excludes zero, *level* that it does not.

These are small models on one synthetic world. What holds here need not hold for large models on photographs, and
what fails here may well work there.
"""


def chapter(args: argparse.Namespace, name: str) -> str:
    folder = args.work / name
    run = read_run(folder / "test")
    table = tabulate(run, methods=[m for m in MAIN if m in present(run)], against="vtrace")
    correct = [row["correct"] for row in run.rows["item"]]
    title = "Pinhole (Qwen3-VL)" if name == "pinhole" else "Pinhole-InternVL (InternVL)"
    minutes = sum(json.loads(path.read_text()) for path in (folder / "minutes").iterdir())
    unfinished = f"**Unfinished: {args.items} were asked for.** " if len(correct) < args.items else ""
    text = [f"## {title}", ""]
    text += [
        f"{len(correct)} test examples, {sum(map(bool, correct)) / len(correct):.3f} of them answered correctly. "
        f"{unfinished}All runs of this model took {minutes:.0f} minutes.", ""
    ]  # fmt: skip
    every = tabulate(run, methods=[m for m in METHODS if m in present(run) and m != SLOWEST])
    text += ["### In words", "", *(f"- {line}" for line in judgements(table, every)), ""]
    text += ["### Test split", "", markdown(table, intervals=False), ""]
    if len(every.methods) > len(table.methods):
        text += [f"### More methods, {every.lines[0].items} examples", "", markdown(rise(every)), ""]
    if SLOWEST in present(run):
        slow = tabulate(run, methods=[*table.methods, SLOWEST])
        text += [f"### HETA, {slow.lines[0].items} examples", "", markdown(rise(slow)), ""]
    text += ["### Where the model is right and where it is wrong", ""]
    split = tabulate(run, methods=table.methods, subsets=("correct", "incorrect"), evidence=False)
    split_lines = [x for x in split.lines if x.metric == "RISE ins"]
    text += [markdown(replace(split, lines=split_lines)), ""]
    text += studies(folder, name, args.study_items)
    return "\n".join(text)


def rise(table: Table) -> Table:
    return replace(table, lines=[line for line in table.lines if line.metric.startswith("RISE")])


def present(run) -> set[str]:
    return {row["method"] for row in run.rows["result"]}


def line_of(table: Table, target: str, setting: str, metric: str) -> Line:
    wanted = (target, "all", setting, metric)
    return next(x for x in table.lines if (x.target, x.subset, x.setting, x.metric) == wanted)


def against(line: Line, method: str) -> str:
    """better, worse or level: the method against VTrace."""
    cell = line.cells[method]
    if cell.difference_low is None or cell.difference_low <= 0 <= (cell.difference_high or 0):
        return "level"
    return "better" if (cell.difference_low > 0) == line.higher_is_better else "worse"


def judgements(table: Table, every: Table) -> list[str]:
    """What holds and what does not, in sentences: of the main methods, and of leave-one-out among all of them."""
    image = line_of(every, "response", "image", "RISE ins")
    noise, measured = image.cells["random"].mean, image.cells["loo"].mean
    fair = noise <= 0.62 and measured - noise >= 0.15
    found = [
        f"The benchmark {'discriminates' if fair else 'does not discriminate as it should'}: random order reaches "
        f"{noise:.3f} in image insertion (at most 0.62 wanted), leave-one-out {measured:.3f} "
        f"({image.items} examples)."
    ]
    rivals = [m for m in table.methods if m not in ("vtrace", "vtrace-ordered", "random")]
    for target, setting in WHERE:
        lines = [line_of(table, target, setting, metric) for metric in ("RISE ins", "RISE del")]
        own = "/".join(f"{line.cells['vtrace'].mean:.3f}" for line in lines)
        sides: dict[str, list[str]] = {"better": [], "worse": [], "level": []}
        for rival in rivals:
            verdicts = {against(line, rival) for line in lines}
            side = "level" if verdicts == {"level"} or verdicts == {"better", "worse"} else (verdicts - {"level"}).pop()
            numbers = "/".join(f"{line.cells[rival].mean:.3f}" for line in lines)
            sides[side].append(f"{rival} {numbers}")
        said = "; ".join(
            f"{words} {', '.join(sides[side])}"
            for side, words in (("worse", "beats"), ("level", "is level with"), ("better", "**loses to**"))
            if sides[side]
        )
        found.append(f"Target {target}, {setting} setting: VTrace (RISE insertion/deletion {own}) {said}.")
    for target, setting in WHERE:
        lines = [line_of(table, target, setting, metric) for metric in ("RISE ins", "RISE del")]
        own, ordered = ("/".join(f"{line.cells[m].mean:.3f}" for line in lines) for m in ("vtrace", "vtrace-ordered"))
        verdicts = [against(line, "vtrace-ordered") for line in lines]
        found.append(
            f"Ordered paths against the paper's sum, target {target}, {setting}: {ordered} against {own}; "
            f"{verdicts[0]} in insertion, {verdicts[1]} in deletion."
        )
    for target in TARGETS:
        line = line_of(table, target, "image evidence", "auc")
        order = sorted(line.cells, key=lambda m: -line.cells[m].mean)
        ranks = ", ".join(f"{m} {line.cells[m].mean:.3f}" for m in order)
        found.append(f"Rank AUC of the patches that show the evidence, target {target}: {ranks}.")
    return found


def studies(folder: Path, name: str, items: int) -> list[str]:
    """Plots and tables of the studies, copied next to the page."""
    text: list[str] = []
    for study in (*STUDIES, *PROFILES):
        source = folder / "studies" / study
        if not (source / f"{study}.md").exists():
            continue
        if not text:
            text += ["### Studies", "", f"On {items} examples of the dev split or fewer, so intervals are wide.", ""]
        plot = HERE / "results" / f"{name}-{study}.png"
        plot.parent.mkdir(exist_ok=True)
        shutil.copy(source / f"{study}.png", plot)
        _, about, _, *tables = (source / f"{study}.md").read_text("utf-8").split("\n\n")
        text += [f"#### {study}", "", about, "", f"![{study}](results/{plot.name})", ""]
        text += ["<details><summary>Table</summary>", "", *"\n\n".join(tables).splitlines(), "", "</details>", ""]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(EMBEDDED), choices=list(EMBEDDED))
    parser.add_argument("--items", type=int, default=200, help="test examples for the quick methods")
    parser.add_argument("--others", type=int, default=8, help=f"test examples for all methods but {SLOWEST}")
    parser.add_argument("--slowest", type=int, default=2, help=f"test examples for {SLOWEST}")
    parser.add_argument("--study-items", type=int, default=12, help="dev examples per study")
    parser.add_argument("--studies", nargs="*", default=[*STUDIES, *PROFILES])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes, which share the examples")
    parser.add_argument("--work", type=Path, default=Path("build/results"), help="runs and studies")
    parser.add_argument("--page-only", action="store_true", help="write the page from what has been measured")
    parser.add_argument("--out", type=Path, default=HERE / "results.md")
    args = parser.parse_args()
    if not args.page_only:
        measure(args)
    text = page(args)
    print(f"wrote {write_atomically(args.out, lambda file: file.write_text(text, 'utf-8'))}")


if __name__ == "__main__":
    main()
