"""The pages of docs/results: every number and every sentence that compares methods comes from the runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from results_plan import MANY_IN_WORDS, SLOWEST, TITLES, ResultsPlan
from results_split import split_pages

from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.store import Run, read_run
from vtrace.faithfulness.tables import Table, tabulate
from vtrace.faithfulness.verdicts import (
    COMPARISONS,
    all_comparisons,
    count_standings,
    discrimination,
    distinguished_pairs,
    overall_comparisons,
)
from vtrace.studies.registry import STUDIES
from vtrace.system.files import write_atomically

# Numbers of patches that show evidence.
AMOUNTS = {"one or two patches": (1, 2), "three or four": (3, 4), "five or more": (5, 64)}
HEAD = """# Results on the embedded models

Written by `make results` (`scripts/results.py`), seed {seed}. Every number, and every sentence that compares methods,
is computed from these runs. They use the Shapes test split and perturb inputs as in the paper (K = 20 groups,
likelihood of the whole frozen response, blurred patches, pad tokens for words) with a blur radius of a quarter of the
longer side, which removes what the answer needs. One method is *better* or *worse* than another, *beats* it or *loses
to* it, if the 95 % bootstrap interval of the paired difference excludes zero. Otherwise they are *level*, which does
not mean that they are equal. Intervals are not corrected for multiple comparisons.

All runs of these pages took {minutes:.0f} minutes.

How to read it:

- These are small models on one synthetic benchmark. What holds here may not hold for large models on photographs, and
  what fails here may work there.
- Whatever the target of an attribution, the likelihood of the whole response is measured, as in the paper. This works
  against methods that are faithful to the answer alone, such as leave-one-out: an answer that copies the frozen
  reasoning no longer needs the picture.
- In the joint setting, `vtrace` is calibrated, as the paper defines it; the others are not. The study *ordered* also
  has ordered paths with calibration.
"""


def write_pages(plan: ResultsPlan) -> list[Path]:
    plan.pages.mkdir(parents=True, exist_ok=True)
    pages = split_pages(whole_text(plan), TITLES)
    return [_write(plan.pages / f"{name}.md", text) for name, text in pages.items()]


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


def whole_text(plan: ResultsPlan) -> str:
    spent = plan.work / "minutes.json"
    minutes = json.loads(spent.read_text()) if spent.exists() else 0.0
    runs = {model: read_run(plan.work / model / "test") for model in plan.models}
    chapters = [chapter(plan, model, run) for model, run in runs.items()]
    return "\n".join([HEAD.format(seed=0, minutes=minutes), *overview(plan, runs), *chapters])


def overview(plan: ResultsPlan, runs: dict[str, Run]) -> list[str]:
    """The paper's method and ours against every other: how often better, level and worse."""
    columns = {
        f"{own}, {TITLES[model]}": tabulate(run, methods=present(run, plan.main), against=own, evidence=False)
        for own in ("vtrace", "vtrace-ordered")
        for model, run in runs.items()
    }
    text = [
        "## Overview",
        "",
        f"Two methods are compared {COMPARISONS} times: for both targets, in both settings, by RISE and MAS, in "
        "insertion and in deletion. Each cell counts how often the method of the column is better / level / worse than "
        "the method of the row.",
        "",
        f"| | {' | '.join(columns)} |",
        "|" + " --- |" * (len(columns) + 1),
    ]
    for rival in (m for m in plan.main if all(m in table.methods for table in columns.values())):
        cells = []
        for table in columns.values():
            counts = count_standings(table, rival)  # of the rival
            text_of_cell = f"{counts['worse']} / {counts['level']} / {counts['better']}"
            cells.append("" if rival == table.against else text_of_cell)
        text.append(f"| {rival} | {' | '.join(cells)} |")
    return [*text, ""]


def chapter(plan: ResultsPlan, model: str, run: Run) -> str:
    folder = plan.work / model
    main = tabulate(run, methods=present(run, plan.main), against="vtrace")
    first = tabulate(run, methods=[m for m in plan.first if m in main.methods], against="vtrace")
    return "\n".join(
        [
            f"## {TITLES[model]}",
            "",
            *examples(run, plan.items),
            *summary(run, main),
            *test_split(run, plan, main, first),
            *by_evidence(run, first.methods),
            *much_evidence(run, plan, folder / "scattered"),
            *by_correctness(run, first.methods),
            *studies(plan, model),
        ]
    )


def examples(run: Run, wanted: int) -> list[str]:
    correct = [row["correct"] for row in run.rows.item]
    text = f"{len(correct)} test examples, {sum(map(bool, correct)) / len(correct):.3f} of them answered correctly."
    if len(correct) + len(run.rows.left_out) < wanted:
        text += f" **Unfinished: {wanted} examples were planned.**"
    return [text, ""]


def summary(run: Run, main: Table) -> list[str]:
    said = [discrimination(main), distinguished_pairs(run, main.methods), *overall_comparisons(main)]
    every = "\n".join(f"- {line}" for line in all_comparisons(main))
    return ["### Summary", "", *(f"- {line}" for line in said), "", *folded("All comparisons", every), ""]


def test_split(run: Run, plan: ResultsPlan, main: Table, first: Table) -> list[str]:
    text = ["### Test split", "", markdown(first), ""]
    text += [*folded("The same with intervals", markdown(first, intervals=True)), ""]
    if more := [m for m in main.methods if m not in first.methods]:
        text += ["### Other quick methods", "", markdown(tabulate(run, methods=["vtrace", *more])), ""]
    every = tabulate(run, methods=present(run, [m for m in plan.every if m != SLOWEST]))
    if len(every.methods) > len(main.methods):
        text += [f"### All methods, {every.lines[0].items} examples", "", markdown(only_rise(every)), ""]
    if present(run, [SLOWEST]):
        slow = tabulate(run, methods=[*first.methods, SLOWEST])
        head = f"### HETA, {slow.lines[0].items} examples: too few for a ranking"
        text += [head, "", markdown(only_rise(slow)), ""]
    return text


def by_evidence(run: Run, methods: list[str]) -> list[str]:
    """Image insertion where few patches show the evidence, and where many do."""
    tokens = {row["key"]: row["image_tokens"] for row in run.rows.item}
    shares = {
        row["item"]: row["value"] or 0.0
        for row in run.rows.evidence
        if (row["kind"], row["metric"]) == ("image", "base")
    }
    amounts = {item: round(share * tokens[item]) for item, share in shares.items()}
    text = ["### By number of evidence patches", "", "RISE insertion, image setting.", ""]
    text += [f"| target | evidence | items | {' | '.join(methods)} |", "|" + " --- |" * (3 + len(methods))]
    for words, (low, high) in AMOUNTS.items():
        curves = [row for row in run.rows.curve if low <= amounts.get(row["item"], 0) <= high]
        part = tabulate(replace(run, rows=replace(run.rows, curve=curves)), methods=methods, evidence=False)
        for line in part.lines:
            if (line.setting, line.metric) == ("image", "RISE ins"):
                cells = [f"{line.cells[m].mean:.3f}" for m in methods]
                text.append(f"| {line.target} | {words} | {line.items} | {' | '.join(cells)} |")
    return [*text, ""]


def much_evidence(run: Run, plan: ResultsPlan, place: Path) -> list[str]:
    """The same methods on questions that need many patches: some from the test run, and further ones."""
    if not place.exists():
        return []
    keys = {find_benchmark("shapes").key(number) for number in plan.scattered_numbers()}
    rows = _rows_of(run.rows, keys)
    rows.extend(read_run(place).rows)
    run = replace(run, rows=rows)
    table = only_rise(tabulate(run, methods=present(run, plan.main), against="vtrace", evidence=False))
    return [
        "### Examples with much evidence",
        "",
        f"The first {table.lines[0].items} test examples with at least {MANY_IN_WORDS} evidence objects.",
        "",
        f"- {discrimination(table)}",
        f"- {distinguished_pairs(run, table.methods)}",
        "",
        markdown(table),
        "",
    ]


def _rows_of(rows: RunRows, keys: set[str]) -> RunRows:
    return RunRows(
        item=[row for row in rows.item if row["key"] in keys],
        result=[row for row in rows.result if row["item"] in keys],
        curve=[row for row in rows.curve if row["item"] in keys],
        evidence=[row for row in rows.evidence if row["item"] in keys],
        failure=[row for row in rows.failure if row["item"] in keys],
        left_out=[row for row in rows.left_out if row["item"] in keys],
    )


def by_correctness(run: Run, methods: list[str]) -> list[str]:
    split = tabulate(run, methods=methods, subsets=("correct", "incorrect"), evidence=False)
    lines = [line for line in split.lines if line.metric == "RISE ins"]
    return [
        "### Correct and incorrect answers",
        "",
        "Incorrect answers are rare; the study *correctness* looks for more of them.",
        "",
        markdown(replace(split, lines=lines)),
        "",
    ]


def studies(plan: ResultsPlan, model: str) -> list[str]:
    """Plots and tables of the studies; plots are copied next to the page."""
    text: list[str] = []
    for name in STUDIES:
        source = plan.work / model / "studies" / name
        if (source / f"{name}.md").exists():
            text += study(source, name, plan.pages / f"{model}-{name}.png")
    if not text:
        return []
    items = f"On {plan.study_items} examples of the dev split unless a table says otherwise, so intervals are wide."
    return ["### Studies", "", items, "", *text]


def study(source: Path, name: str, plot: Path) -> list[str]:
    shutil.copy(source / f"{name}.png", plot)
    _, about, _, *tables = (source / f"{name}.md").read_text("utf-8").split("\n\n")
    text = [f"#### {name}", "", about, "", f"![{name}]({plot.name})", ""]
    return [*text, *folded("Table", "\n\n".join(tables)), ""]


def folded(title: str, text: str) -> list[str]:
    return [f'<details markdown="1"><summary>{title}</summary>', "", *text.splitlines(), "", "</details>"]


def only_rise(table: Table) -> Table:
    return replace(table, lines=[line for line in table.lines if line.metric.startswith("RISE")])


def present(run: Run, methods: Sequence[str]) -> list[str]:
    """The given methods that the run has."""
    measured = {row["method"] for row in run.rows.result}
    return [name for name in methods if name in measured]
