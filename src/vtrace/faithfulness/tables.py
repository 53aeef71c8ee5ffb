"""Tables in the paper's layout: methods as columns, the best in bold and the runner-up underlined."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..errors import InputError
from .statistics import Summary, summarise
from .store import Run

EVIDENCE = ("energy", "pointing", "auc", "recall_5", "recall_10", "recall_20", "dependence_20")
SUBSETS = ("all", "correct", "incorrect")


@dataclass(frozen=True)
class Line:
    """One row of a table: a metric in one setting, for one target and subset, over all methods."""

    target: str
    subset: str
    setting: str  # image, joint; or the kind of evidence
    metric: str  # such as "RISE ins"
    higher_is_better: bool
    items: int  # on which every method succeeded
    degenerate: int
    cells: dict[str, Summary]
    published: dict[str, float]
    unranked: dict[str, int] = field(default_factory=dict)  # items on which a method gave only zeros


@dataclass(frozen=True)
class Table:
    """A whole run, summarised."""

    settings: dict[str, Any]
    methods: list[str]
    against: str | None  # the method that differences, wins and losses are relative to
    lines: list[Line]
    verdicts: dict[str, int]  # on answers to items that all methods have: correct, wrong, unparsed, undecided
    items: int  # asked for, those left out included
    left_out: dict[str, int]  # items by reason
    lost: dict[str, str]  # files of the benchmark that could not be read: reason
    failures: dict[str, int]  # of single methods, by reason


def tabulate(
    run: Run, *, methods: Sequence[str] | None = None, subsets: Sequence[str] = ("all",), evidence: bool = True,
    against: str | None = "vtrace", with_degenerate: bool = True,
) -> Table:  # fmt: skip
    """Summaries over the items on which every chosen method succeeded, so that columns can be compared."""
    present = list(dict.fromkeys(row["method"] for row in run.rows["result"]))
    chosen = list(methods or present)
    if missing := [name for name in chosen if name not in present]:
        raise InputError(f"the run has no results of {missing[0]}; it has: {', '.join(present) or 'none'}")
    if not chosen:
        why = next((f": {row['reason']}" for row in run.rows["left_out"] + run.rows["failure"]), " yet")
        raise InputError(f"the run has no results{why}")
    correct = {row["key"]: row["correct"] for row in run.rows["item"]}
    lines = []
    for target in dict.fromkeys(row["target"] for row in run.rows["result"]):
        for subset in subsets:
            keep = _subset(correct, subset)
            lines += _curve_lines(run, target, subset, keep, chosen, against, with_degenerate)
            if evidence:
                lines += _evidence_lines(run, target, subset, keep, chosen, against)
    of_method = [{row["item"] for row in run.rows["result"] if row["method"] == name} for name in chosen]
    compared = set.intersection(*of_method)
    verdicts = Counter(row["verdict"] for row in run.rows["item"] if row["verdict"] and row["key"] in compared)
    left_out = Counter(row["reason"] for row in run.rows["left_out"])
    failures = Counter(row["reason"] for row in run.rows["failure"] if row["method"] in chosen)
    lost = {row["file"]: row["reason"] for row in run.rows["lost"]}
    count = len(correct.keys() | {row["item"] for row in run.rows["left_out"]})
    against = against if against in chosen else None
    return Table(run.settings, chosen, against, lines, dict(verdicts), count, dict(left_out), lost, dict(failures))


def _subset(correct: dict[str, int | None], subset: str) -> set[str]:
    if subset not in SUBSETS:
        raise InputError(f"unknown subset {subset!r}; use one of: {', '.join(SUBSETS)}")
    wanted = {"all": None, "correct": 1, "incorrect": 0}[subset]
    return {key for key, value in correct.items() if wanted is None or value == wanted}


def _curve_lines(
    run: Run, target: str, subset: str, keep: set[str], methods: list[str], against: str | None, with_degenerate: bool
) -> list[Line]:
    lines = []
    rows = [r for r in run.rows["curve"] if r["target"] == target and r["item"] in keep]
    for setting in ("image", "joint"):
        for metric in ("rise", "mas"):
            for mode in ("insertion", "deletion"):
                mine = [r for r in rows if (r["setting"], r["mode"]) == (setting, mode)]
                flat = {r["item"] for r in mine if r["degenerate"]}
                used = mine if with_degenerate else [r for r in mine if r["item"] not in flat]
                items, values = _paired({(r["method"], r["item"]): r[metric] for r in used}, methods)
                if not items:
                    continue
                up = mode == "insertion"
                label = f"{metric.upper()} {mode[:3]}"
                known = published(run.settings, subset, setting, metric, mode) if target == "response" else {}
                cells, few = summarise(values, against, up), len(flat.intersection(items))
                compared = [r for r in used if r["item"] in items and r["method"] in methods]
                zeros = dict(Counter(r["method"] for r in compared if r["unranked"]))
                lines.append(Line(target, subset, setting, label, up, len(items), few, cells, known, zeros))
    return lines


def _evidence_lines(
    run: Run, target: str, subset: str, keep: set[str], methods: list[str], against: str | None
) -> list[Line]:
    lines = []
    rows = [r for r in run.rows["evidence"] if r["target"] == target and r["item"] in keep]
    for kind in ("image", "question"):
        for metric in EVIDENCE:
            mine = {(r["method"], r["item"]): r["value"] for r in rows if (r["kind"], r["metric"]) == (kind, metric)}
            items, values = _paired(mine, methods)
            if items:
                label = metric.replace("_", " @ ") + (" %" if "_" in metric else "")
                cells = summarise(values, against, True)
                lines.append(Line(target, subset, f"{kind} evidence", label, True, len(items), 0, cells, {}))
    return lines


def _paired(values: dict[tuple[str, str], float | None], methods: list[str]) -> tuple[list[str], dict[str, np.ndarray]]:
    """The items that every method has, and values over them. The database keeps what is not a number as None."""
    items = dict.fromkeys(item for _, item in values)
    common = [item for item in items if all(values.get((m, item)) is not None for m in methods)]
    return common, {m: np.array([values[m, i] for i in common]) for m in methods}


def published(settings: dict[str, Any], subset: str, setting: str, metric: str, mode: str) -> dict[str, float]:
    """The paper's numbers for this model and benchmark, by method."""
    text = files(__package__).joinpath("published.csv").read_text("utf-8")
    wanted = (settings["benchmark"], subset, setting, metric, mode)
    names = ("benchmark", "subset", "setting", "metric", "mode")
    return {
        row["method"]: float(row["value"])
        for row in csv.DictReader(io.StringIO(text))
        if tuple(row[name] for name in names) == wanted and _checkpoint(row["model"]) == _checkpoint(settings["model"])
    }


def _checkpoint(model: str) -> str:
    """The name of the weights, wherever they are kept; InternVL's for transformers end in HF."""
    return PurePath(model.partition("@")[0]).name.removesuffix("-HF")


def marks(line: Line) -> dict[str, str]:
    """The best and the second best methods of a line; those that print alike are marked alike."""
    printed = {method: f"{cell.mean:.3f}" for method, cell in line.cells.items()}
    order = sorted(set(printed.values()), key=float, reverse=line.higher_is_better)
    places = dict(zip(order, ("best", "second"), strict=False))
    return {method: places[text] for method, text in printed.items() if text in places}


def markdown(table: Table, intervals: bool = False, reference: str | None = None) -> str:
    """`reference` is what the table was made against, if differences to it are to be shown."""
    styles = {"best": "**%s**", "second": "<u>%s</u>"}

    def cell(line: Line, method: str) -> str:
        return _cell(line, method, styles, intervals, reference)

    head = ["target", "items", "setting", "metric", *table.methods]
    rows = [[*_labels(line), *(cell(line, m) for m in table.methods)] for line in table.lines]
    body = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*body, *_notes(table, reference)]) + "\n"


def latex(table: Table, intervals: bool = False, reference: str | None = None) -> str:
    signs = {"%": r"\%", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--"}
    styles = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}

    def cell(line: Line, method: str) -> str:
        return _cell(line, method, styles, intervals, reference)

    def row(cells: list[str]) -> str:
        text = " & ".join(cells)
        for sign, command in signs.items():
            text = text.replace(sign, command)
        return text + r" \\"

    columns = "lrll" + "r" * len(table.methods)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            row(["target", "items", "setting", "metric", *table.methods]),
            r"\midrule",
            *(row([*_labels(line), *(cell(line, m) for m in table.methods)]) for line in table.lines),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {note}" for note in _notes(table, reference) if note),
            "",
        ]
    )


def comma_separated(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    about = ["target", "subset", "setting", "metric", "higher_is_better", "items", "degenerate"]
    writer.writerow([*about, "method", *Summary.__dataclass_fields__, "against", "published", "unranked"])
    for line in table.lines:
        head = [getattr(line, name) for name in about]
        for method, summary in line.cells.items():
            against = None if summary.difference is None else table.against
            known, zeros = line.published.get(method), line.unranked.get(method, 0)
            writer.writerow([*head, method, *asdict(summary).values(), against, known, zeros])
    return out.getvalue()


def as_json(table: Table) -> str:
    return json.dumps(asdict(table), indent=1) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": markdown, "latex": latex, "csv": comma_separated, "json": as_json,
}  # fmt: skip


def _labels(line: Line) -> list[str]:
    arrow = "↑" if line.higher_is_better else "↓"
    return [_who(line), str(line.items), line.setting, f"{line.metric} {arrow}"]


def _who(line: Line) -> str:
    return line.target if line.subset == "all" else f"{line.target}, {line.subset}"


def _cell(line: Line, method: str, styles: dict[str, str], intervals: bool, reference: str | None) -> str:
    summary = line.cells[method]
    text = f"{summary.mean:.3f}"
    if intervals:
        text += f" [{summary.low:.3f}–{summary.high:.3f}]"
    if reference and summary.difference is not None:
        apart = f"{summary.difference:+.3f}"
        if intervals:
            apart += f" [{summary.difference_low:+.3f}–{summary.difference_high:+.3f}]"
        text += f" ({apart}; {summary.wins}/{summary.ties}/{summary.losses})"
    text = styles.get(marks(line).get(method, ""), "%s") % text
    return text + (f" (paper: {line.published[method]:.3f})" if method in line.published else "")


def _notes(table: Table, reference: str | None) -> list[str]:
    facts = table.settings
    notes = [
        "",
        f"{facts['model']} on {facts['benchmark']}; blur {facts['blur']:.3g} of the longer side, {facts['steps']} "
        f"steps, seed {facts['seed']}. ↑ higher is better, ↓ lower is better.",
    ]
    flat = {(_who(line), line.setting): line.degenerate for line in table.lines if line.degenerate}
    notes += [f"Degenerate curves ({who}, {setting}): {count}." for (who, setting), count in flat.items()]
    zeros = {(_who(line), line.setting): line.unranked for line in table.lines if line.unranked}
    for (who, setting), counts in zeros.items():
        said = ", ".join(f"{method} {count}" for method, count in counts.items())
        notes.append(f"Nothing but zeros, ranked as they stand ({who}, {setting}): {said}.")
    if any(line.published for line in table.lines):
        notes.append("Paper: its numbers for this model and benchmark.")
    if reference:
        notes.append(f"In parentheses: difference to {reference} on the same items; wins/ties/losses against it.")
    if table.verdicts:
        right, graded = table.verdicts.get("correct", 0), sum(table.verdicts.values())
        others = [f", {table.verdicts[name]} {name}" for name in ("unparsed", "undecided") if name in table.verdicts]
        notes.append(f"Answers: {right} of {graded} correct{''.join(others)}.")
    if table.left_out:
        notes.append(f"Left out: {sum(table.left_out.values())} of {table.items} items.")
        notes += [f"Left out {count}: {reason}" for reason, count in table.left_out.items()]
    notes += [f"Left out with unknown items: {file}: {reason}" for file, reason in table.lost.items()]
    notes += [f"Failed {count} times: {reason}" for reason, count in table.failures.items()]
    return notes


RAW = ("curve", "evidence")


def export_parquet(run: Run, table: str, path: Path) -> None:
    """Raw rows with what they belong to: curves, one per item, target, method, setting and direction; or evidence."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow; install it with: pip install pyarrow") from error
    correct = {row["key"]: row["correct"] for row in run.rows["item"]}
    settings = {k: json.dumps(value) if isinstance(value, dict | list) else value for k, value in run.settings.items()}
    rows = [{**settings, **row, "correct": correct[row["item"]]} for row in run.rows[table]]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
