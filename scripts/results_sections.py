"""The results of one model: what its pages say, section by section, from its runs and studies."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from results_plan import GROUNDS, MANY_IN_WORDS, SLOWEST, ResultsPlan

from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.store import Run, read_run
from vtrace.faithfulness.tables import Table, tabulate
from vtrace.faithfulness.verdicts import all_comparisons, discrimination, distinguished_pairs, overall_comparisons
from vtrace.studies.registry import STUDIES

OWN = ("vtrace", "vtrace-ordered", "vtrace-ordered-refined")  # compared with every other method
ENOUGH = 8  # examples, to show a ranking of methods at all
# Numbers of patches that show evidence.
AMOUNTS = {"one or two patches": (1, 2), "three or four": (3, 4), "five or more": (5, 64)}


class Section(NamedTuple):
    """A heading and the text below it."""

    title: str
    text: str


class ModelResults(NamedTuple):
    """What is known about one model."""

    about: str
    main: Table  # all methods that ran on every example
    first: Table  # the most important ones
    against: dict[str, Table]  # each of our own methods against every other
    summary: list[Section]
    tables: list[Section]  # the long ones


def joined(sections: Sequence[Section]) -> str:
    return "\n\n".join(f"## {section.title}\n\n{section.text.rstrip()}" for section in sections)


def results_of(plan: ResultsPlan, model: str) -> ModelResults:
    folder = plan.work / model
    run = _without_gaps(read_run(folder / "test"), plan, model)
    main = tabulate(run, methods=complete(run, plan.main(model)), against="vtrace")
    first = tabulate(run, methods=[m for m in plan.first if m in main.methods], against="vtrace")
    summary = [Section("Summary", _summary(run, main)), Section("Test split", markdown(_only_curves(first)))]
    if GROUNDS[model].sees:
        summary += [_by_evidence(run, first.methods), *_much_evidence(run, plan, model)]
    summary.append(_by_correctness(run, first.methods))
    own = [name for name in OWN if name in main.methods]
    return ModelResults(
        _about(run, plan.items, GROUNDS[model].note),
        main,
        first,
        {name: tabulate(run, methods=main.methods, against=name, evidence=False) for name in own},
        summary,
        [*_long_tables(main, first), *_other_methods(run, plan, model, main)],
    )


def _about(run: Run, wanted: int, note: str) -> str:
    correct = [row["correct"] for row in run.rows.item]
    text = f"{len(correct)} test examples, {sum(map(bool, correct)) / len(correct):.3f} of them answered correctly."
    if len(correct) + len(run.rows.left_out) < wanted:
        text += f" **Unfinished: {wanted} examples were planned.**"
    return f"{text}\n\n{note}".strip()


def _summary(run: Run, main: Table) -> str:
    said = [discrimination(main), distinguished_pairs(run, main.methods), *overall_comparisons(main)]
    return "\n".join(f"- {line}" for line in said)


def _without_gaps(run: Run, plan: ResultsPlan, model: str) -> Run:
    """The examples before the first that is missing: workers take every other example, of which some are easier."""
    key = find_benchmark(GROUNDS[model].benchmark).key
    done = {row["key"] for row in run.rows.item} | {row["item"] for row in run.rows.left_out}
    keys = map(key, plan.part("main", model).numbers)
    return replace(run, rows=_rows_of(run.rows, {*takewhile(done.__contains__, keys)}))


def _long_tables(main: Table, first: Table) -> list[Section]:
    return [
        Section("Test split", markdown(first)),
        Section("The same with intervals", markdown(first, intervals=True)),
        Section("All comparisons", "\n".join(f"- {line}" for line in all_comparisons(main))),
    ]


def _other_methods(test: Run, plan: ResultsPlan, model: str, main: Table) -> Iterator[Section]:
    """Methods that are not in the first table, some of them on fewer examples."""
    if begun := [m for m in present(test, plan.main(model)) if m not in main.methods]:
        yield _begun(test, [*main.methods, *begun])
    if more := [m for m in main.methods if m not in plan.first]:
        yield Section("Other quick methods", markdown(tabulate(test, methods=["vtrace", *more])))
    place = plan.work / model / plan.part("others", model).folder
    if not place.exists():
        return
    run = read_run(place)
    names = complete(run, plan.part("others", model).methods)
    if not names:
        return
    every = tabulate(run, methods=names)
    yield Section(_few("More methods", every), markdown(_only_rise(every)))
    if present(run, [SLOWEST]):
        slow = tabulate(run, methods=present(run, [*main.methods, SLOWEST]))
        yield Section(_few("HETA", slow), markdown(_only_rise(slow)))


def _begun(test: Run, methods: Sequence[str]) -> Section:
    """Methods that an interrupted run has measured on its first examples."""
    done = {(row["item"], row["method"]) for row in test.rows.result}
    keys = [row["key"] for row in test.rows.item]
    both = {*takewhile(lambda key: all((key, method) in done for method in methods), keys)}
    table = tabulate(replace(test, rows=_rows_of(test.rows, both)), methods=methods, evidence=False)
    return Section(_few("Every quick method", table), markdown(table, intervals=True))


def _few(title: str, table: Table) -> str:
    items = table.lines[0].items
    return f"{title}, {items} examples" + (": too few for a ranking" if items < ENOUGH else "")


def _by_evidence(run: Run, methods: list[str]) -> Section:
    """Image insertion where few patches show the evidence, and where many do."""
    tokens = {row["key"]: row["image_tokens"] for row in run.rows.item}
    shares = {
        row["item"]: row["value"] or 0.0
        for row in run.rows.evidence
        if (row["kind"], row["metric"]) == ("image", "base")
    }
    amounts = {item: round(share * tokens[item]) for item, share in shares.items()}
    text = ["RISE insertion, image setting.", "", f"| target | evidence | items | {' | '.join(methods)} |"]
    text.append("|" + " --- |" * (3 + len(methods)))
    for words, (low, high) in AMOUNTS.items():
        curves = [row for row in run.rows.curve if low <= amounts.get(row["item"], 0) <= high]
        part = tabulate(replace(run, rows=replace(run.rows, curve=curves)), methods=methods, evidence=False)
        for line in part.lines:
            if (line.setting, line.metric) == ("image", "RISE ins"):
                cells = [f"{line.cells[m].mean:.3f}" for m in methods]
                text.append(f"| {line.target} | {words} | {line.items} | {' | '.join(cells)} |")
    return Section("By number of evidence patches", "\n".join(text))


def _much_evidence(run: Run, plan: ResultsPlan, model: str) -> list[Section]:
    """The same methods on questions that need many patches: some from the test run, and further ones."""
    place = plan.work / model / "scattered"
    if not place.exists():
        return []
    keys = {find_benchmark("shapes").key(number) for number in plan.scattered_numbers()}
    rows = _rows_of(run.rows, keys)
    rows.extend(read_run(place).rows)
    run = replace(run, rows=rows)
    table = _only_rise(tabulate(run, methods=present(run, plan.main(model)), against="vtrace", evidence=False))
    text = [
        f"The first {table.lines[0].items} test examples with at least {MANY_IN_WORDS} evidence objects.",
        "",
        f"- {discrimination(table)}",
        f"- {distinguished_pairs(run, table.methods)}",
        "",
        markdown(table),
    ]
    return [Section("Examples with much evidence", "\n".join(text))]


def _rows_of(rows: RunRows, keys: set[str]) -> RunRows:
    return RunRows(
        item=[row for row in rows.item if row["key"] in keys],
        result=[row for row in rows.result if row["item"] in keys],
        curve=[row for row in rows.curve if row["item"] in keys],
        evidence=[row for row in rows.evidence if row["item"] in keys],
        failure=[row for row in rows.failure if row["item"] in keys],
        left_out=[row for row in rows.left_out if row["item"] in keys],
    )


def _by_correctness(run: Run, methods: list[str]) -> Section:
    split = tabulate(run, methods=methods, subsets=("correct", "incorrect"), evidence=False)
    lines = [line for line in split.lines if line.metric == "RISE ins"]
    return Section("Correct and incorrect answers", markdown(replace(split, lines=lines)))


def study_sections(plan: ResultsPlan, model: str) -> list[Section]:
    """Plots and tables of the studies; plots are copied next to the page."""
    places = {name: plan.work / model / "studies" / name for name in STUDIES}
    return [
        _study(name, place, plan.pages / f"{model}-{name}.png")
        for name, place in places.items()
        if (place / f"{name}.md").exists()
    ]


def _study(name: str, place: Path, plot: Path) -> Section:
    shutil.copy(place / f"{name}.png", plot)
    _, about, _, *tables = (place / f"{name}.md").read_text("utf-8").split("\n\n")
    table = ['<details markdown="1"><summary>Table</summary>', *tables, "</details>"]
    return Section(name, "\n\n".join([about, f"![{name}]({plot.name})", *table]))


def _only_curves(table: Table) -> Table:
    return replace(table, lines=[line for line in table.lines if line.setting in table.settings])


def _only_rise(table: Table) -> Table:
    return replace(table, lines=[line for line in table.lines if line.metric.startswith("RISE")])


def present(run: Run, methods: Sequence[str]) -> list[str]:
    """The given methods that the run has."""
    measured = {row["method"] for row in run.rows.result}
    return [name for name in methods if name in measured]


def complete(run: Run, methods: Sequence[str]) -> list[str]:
    """The given methods that the run has for all examples: not those that an interrupted run began."""
    done = Counter(method for _, method in {(row["item"], row["method"]) for row in run.rows.result})
    return [name for name in methods if name in done and done[name] == max(done.values())]
