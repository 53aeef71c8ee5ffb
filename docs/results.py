"""Measure everything that docs/results.md says, and write it: `make results`. Resumable; see --help."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from verdicts import METRICS, TARGETS, WHERE, against, discrimination, in_short, judgements, told_apart

from vtrace.benchmarks.registry import SHAPES_SIZE, find_benchmark
from vtrace.benchmarks.shapes.sample import sample
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.run import Plan, evaluate
from vtrace.faithfulness.store import Run, read_run
from vtrace.faithfulness.tables import Table, tabulate
from vtrace.lvlm.checkpoint import EMBEDDED
from vtrace.lvlm.load import load
from vtrace.methods.registry import METHODS
from vtrace.studies.run import run_study
from vtrace.studies.study import PROFILES, STUDIES
from vtrace.system.files import write_atomically

HERE = Path(__file__).parent
# On every example: all methods that are not slow, and two that are. The other slow ones run on a subset, and the
# slowest, minutes for an explanation, on a smaller one. The first table has the paper's, ours, a reference, and noise.
FIRST = (
    "vtrace", "vtrace-ordered", "ifr", "ifr-multihop", "flashtrace", "flowtracer", "rollout", "attnlrp", "loo",
    "random",
)  # fmt: skip
MAIN = (*FIRST, *(name for name, method in METHODS.items() if method.speed != "slow" and name not in FIRST))
SLOWEST = "heta"
TIMED = ("efficiency",)  # studies that measure time, and so run alone
MORE = {"budget": 36}  # dev examples of a quick study: few answers need the inputs once their reasoning is frozen
RUNS = ("others", "main", "slowest", "scattered")  # on the test split
MANY = 5  # things that are evidence: more than a step of a curve shows of the 48 to 64 patches of Pinhole
AMOUNTS = {"one or two patches": (1, 2), "three or four": (3, 4), "five or more": (5, 64)}  # that show the evidence
TITLES = {"pinhole": "Pinhole (Qwen3-VL)", "pinhole-internvl": "Pinhole-InternVL (InternVL)"}


def measure(args: argparse.Namespace) -> None:
    """All runs and studies that are missing: all methods first, as one metric needs leave-one-out beside them."""
    rounds = [[(name, kind, part) for name in args.models for part in range(args.workers)] for kind in RUNS]
    studies = [(name, study, 0) for name in args.models for study in args.studies]
    rounds.append([job for job in studies if job[1] not in TIMED])
    if args.workers == 1:
        for job in chain(*rounds):
            run_job(args, *job)
    else:  # processes of one thread each: on a CPU, two of them do more than one with two threads
        with ProcessPoolExecutor(args.workers, get_context("spawn"), be_worker) as pool:
            for jobs in rounds:  # one after the other, as a share of the examples is one file
                for done in [pool.submit(run_job, args, *job) for job in jobs]:
                    done.result()
    for job in studies:
        if job[1] in TIMED:
            run_job(args, *job)


def be_worker() -> None:
    """One thread for the work; and nothing is measured for a parent that was killed."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_job(args: argparse.Namespace, name: str, kind: str, part: int) -> None:
    """A share of the test split, or a study."""
    lvlm, folder, began = load(name), args.work / name, time.monotonic()
    label = f"{name}, {kind} {part + 1}/{args.workers}:" if kind in RUNS else f"{name}, {kind}:"

    def report(done: int, total: int, key: str) -> None:
        print(f"{label} {done}/{total} ({(time.monotonic() - began) / 60:.1f} min)", file=sys.stderr, flush=True)

    if kind in RUNS:
        rest = tuple(m for m in METHODS if m != SLOWEST)
        plans = {
            "main": (MAIN, range(args.items)), "others": (rest, range(args.others)),
            "slowest": ((SLOWEST,), range(args.slowest)),
            "scattered": (MAIN, [k for k in scattered(args.scattered) if k >= args.items]),  # others are known
        }  # fmt: skip
        methods, only = plans[kind]
        test, shard = find_benchmark("shapes"), (part + 1, args.workers)
        place = folder / ("scattered" if kind == "scattered" else "test")
        evaluate(lvlm, test, Plan(methods, TARGETS), place, only=only, shard=shard, report=report)
    else:
        limit = MORE.get(kind) or min(args.study_items, getattr(PROFILES.get(kind), "limit", args.study_items))
        run_study(kind, lvlm, find_benchmark("shapes-dev"), folder / "studies", limit=limit, report=report)


def scattered(count: int) -> list[int]:
    """Numbers of the first test examples whose evidence are many things."""
    return list(islice((k for k in range(SHAPES_SIZE) if len(sample("test", k).evidence_boxes) >= MANY), count))


@contextmanager
def timed(path: Path) -> Iterator[None]:
    """Add the minutes of a block to those in a file, also when it is interrupted."""
    began = time.monotonic()
    try:
        yield
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        spent = minutes(path) + (time.monotonic() - began) / 60
        write_atomically(path, lambda file: file.write_text(json.dumps(spent)))


def minutes(path: Path) -> float:
    return json.loads(path.read_text()) if path.exists() else 0.0


def page(args: argparse.Namespace) -> str:
    """The page, every number and every judgement from the runs."""
    spent = minutes(args.work / "minutes.json")
    runs = {name: read_run(args.work / name / "test") for name in args.models}
    chapters = [chapter(args, name, run) for name, run in runs.items()]
    return "\n".join([HEAD.format(seed=0, minutes=spent), *overview(runs), *chapters])


HEAD = """# Results on the embedded models

Written by `make results` (`docs/results.py`), seed {seed}; every number, and every sentence that compares methods, is
computed from those runs. Shapes test split; perturbation as in the paper (K = 20 groups, likelihood of the whole
frozen response, blur in the picture, pad tokens for words) with a blur of a quarter of the longer side, which removes
what the answer needs. One method is *better* or *worse* than another, *beats* it or *loses to* it, if the 95 %
bootstrap interval of the paired difference excludes zero; if not, they are *level*, which does not mean that they are
equal. Intervals are not corrected for the many comparisons.

All runs of this page took {minutes:.0f} minutes.

How to read it:

- These are small models on one synthetic world. What holds here need not hold for large models on photographs, and what
  fails here may well work there.
- Whatever the target of an attribution, it is the whole response that is measured, as in the paper. A method that is
  true to the answer alone, as leave-one-out is, loses by that: an answer that copies the frozen reasoning no longer
  needs the picture.
- In the joint setting, `vtrace` is calibrated, as the paper defines it; the others are not. The study *ordered* has
  ordered paths with calibration too.
"""


def overview(runs: dict[str, Run]) -> list[str]:
    """Ours and the paper's method against every other: how often better, level and worse."""
    count = 2 * len(WHERE) * len(METRICS)  # insertion and deletion
    columns = {
        f"{own}, {TITLES[name]}": tabulate(run, methods=main_methods(run), against=own, evidence=False)
        for own in ("vtrace", "vtrace-ordered")
        for name, run in runs.items()
    }
    text = [
        "## In short", "",
        f"Two methods are compared {count} times: for both targets, in both settings, by RISE and MAS, in insertion "
        "and in deletion. A cell says how often the method of its column is better / level / worse than the one of its "
        "row.",
        "", f"| | {' | '.join(columns)} |", "|" + " --- |" * (len(columns) + 1),
    ]  # fmt: skip
    for rival in (m for m in MAIN if all(m in table.methods for table in columns.values())):
        cells = []
        for table in columns.values():
            verdicts = [against(line, rival) for line in table.lines]  # on the rival
            counts = " / ".join(str(verdicts.count(v)) for v in ("worse", "level", "better"))
            cells.append("" if rival == table.against else counts)
        text.append(f"| {rival} | {' | '.join(cells)} |")
    return [*text, ""]


def main_methods(run: Run) -> list[str]:
    return [m for m in MAIN if m in present(run)]


def chapter(args: argparse.Namespace, name: str, run: Run) -> str:
    folder = args.work / name
    table = tabulate(run, methods=main_methods(run), against="vtrace")
    correct = [row["correct"] for row in run.rows["item"]]
    asked = len(correct) + len(run.rows["left_out"])
    unfinished = f"**Unfinished: {args.items} were asked for.** " if asked < args.items else ""
    text = [f"## {TITLES[name]}", ""]
    text += [
        f"{len(correct)} test examples, {sum(map(bool, correct)) / len(correct):.3f} of them answered correctly. "
        f"{unfinished}", ""
    ]  # fmt: skip
    every = tabulate(run, methods=[m for m in METHODS if m in present(run) and m != SLOWEST])
    judged = [discrimination(table), told_apart(run, table.methods), *in_short(table)]
    text += ["### In words", "", *(f"- {line}" for line in judged)]
    text += ["", *folded("Every comparison", "\n".join(f"- {line}" for line in judgements(table))), ""]
    first = tabulate(run, methods=[m for m in FIRST if m in table.methods], against="vtrace")
    text += ["### Test split", "", markdown(first), ""]
    text += [*folded("The same with intervals", markdown(first, intervals=True)), ""]
    if more := [m for m in table.methods if m not in first.methods]:
        quick = tabulate(run, methods=["vtrace", *more], against="vtrace")
        text += ["### Further quick methods", "", markdown(quick), ""]
    if len(every.methods) > len(table.methods):
        text += [f"### All methods, {every.lines[0].items} examples", "", markdown(rise(every)), ""]
    if SLOWEST in present(run):
        slow = tabulate(run, methods=[*first.methods, SLOWEST])
        text += [f"### HETA, {slow.lines[0].items} examples: too few to rank anything", "", markdown(rise(slow)), ""]
    text += by_evidence(run, first.methods)
    text += where_much_has_to_be_seen(run, folder / "scattered", args.scattered)
    text += ["### Where the model is right and where it is wrong", ""]
    text += ["Wrong answers are rare; the study *correctness* looks for more of them.", ""]
    split = tabulate(run, methods=first.methods, subsets=("correct", "incorrect"), evidence=False)
    split_lines = [x for x in split.lines if x.metric == "RISE ins"]
    text += [markdown(replace(split, lines=split_lines)), ""]
    text += studies(folder, name, args.study_items)
    return "\n".join(text)


def by_evidence(run: Run, methods: list[str]) -> list[str]:
    """Image insertion where few patches show the evidence, and where many do."""
    tokens = {row["key"]: row["image_tokens"] for row in run.rows["item"]}
    shares = {row["item"]: row["value"] for row in run.rows["evidence"] if (row["kind"], row["metric"]) == BASE}
    amounts = {item: round(share * tokens[item]) for item, share in shares.items()}
    text = ["### By how many patches show the evidence", "", "RISE insertion, image setting.", ""]
    text += [f"| target | evidence | items | {' | '.join(methods)} |", "|" + " --- |" * (3 + len(methods))]
    for words, (low, high) in AMOUNTS.items():
        curves = [row for row in run.rows["curve"] if low <= amounts.get(row["item"], 0) <= high]
        part = tabulate(replace(run, rows=run.rows | {"curve": curves}), methods=methods, evidence=False)
        for line in part.lines:
            if (line.setting, line.metric) == ("image", "RISE ins"):
                cells = [f"{line.cells[m].mean:.3f}" for m in methods]
                text.append(f"| {line.target} | {words} | {line.items} | {' | '.join(cells)} |")
    return [*text, ""]


def where_much_has_to_be_seen(run: Run, place: Path, count: int) -> list[str]:
    """The same methods on questions that cannot be answered from a few patches: some of the run, and further ones."""
    if not place.exists():
        return []
    keys = {find_benchmark("shapes").key(number) for number in scattered(count)}
    more = read_run(place).rows
    rows = {name: [r for r in run.rows[name] if r.get("item", r.get("key")) in keys] + more[name] for name in more}
    run = replace(run, rows=rows)
    table = rise(tabulate(run, methods=main_methods(run), against="vtrace", evidence=False))
    text = ["### Where much has to be seen", ""]
    text += [f"The first {table.lines[0].items} test examples whose evidence are {MANY} things or more.", ""]
    return [*text, f"- {discrimination(table)}", f"- {told_apart(run, table.methods)}", "", markdown(table), ""]


BASE = ("image", "base")  # the share of patches that show evidence


def folded(title: str, text: str) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *text.splitlines(), "", "</details>"]


def rise(table: Table) -> Table:
    return replace(table, lines=[line for line in table.lines if line.metric.startswith("RISE")])


def present(run: Run) -> set[str]:
    return {row["method"] for row in run.rows["result"]}


def studies(folder: Path, name: str, items: int) -> list[str]:
    """Plots and tables of the studies, copied next to the page."""
    text: list[str] = []
    for study in (*STUDIES, *PROFILES):
        source = folder / "studies" / study
        if not (source / f"{study}.md").exists():
            continue
        if not text:
            text += [
                "### Studies",
                "",
                f"On {items} examples of the dev split unless a table says otherwise, so intervals are wide.",
                "",
            ]
        plot = HERE / "results" / f"{name}-{study}.png"
        plot.parent.mkdir(exist_ok=True)
        shutil.copy(source / f"{study}.png", plot)
        _, about, _, *tables = (source / f"{study}.md").read_text("utf-8").split("\n\n")
        text += [f"#### {study}", "", about, "", f"![{study}](results/{plot.name})", ""]
        text += [*folded("Table", "\n\n".join(tables)), ""]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(EMBEDDED), choices=list(EMBEDDED))
    parser.add_argument("--items", type=int, default=200, help="test examples for all methods that are not slow")
    parser.add_argument("--others", type=int, default=8, help=f"test examples for the slow ones but {SLOWEST}")
    parser.add_argument("--slowest", type=int, default=2, help=f"test examples for {SLOWEST}")
    parser.add_argument(
        "--scattered", type=int, default=60, help=f"test examples with {MANY} things of evidence or more"
    )
    parser.add_argument("--study-items", type=int, default=16, help="dev examples per study")
    parser.add_argument("--studies", nargs="*", default=[*STUDIES, *PROFILES])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes, which share the examples")
    parser.add_argument("--work", type=Path, default=Path("build/results"), help="runs and studies")
    parser.add_argument("--page-only", action="store_true", help="write the page from what has been measured")
    parser.add_argument("--out", type=Path, default=HERE / "results.md")
    args = parser.parse_args()
    if not args.page_only:
        with timed(args.work / "minutes.json"):
            measure(args)
    text = page(args)
    print(f"wrote {write_atomically(args.out, lambda file: file.write_text(text, 'utf-8'))}")


if __name__ == "__main__":
    main()
