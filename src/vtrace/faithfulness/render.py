"""A table as Markdown, LaTeX, CSV or JSON, the best in bold and the runner-up underlined; raw rows as Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from ..errors import InputError
from ..types import model_label
from .rows import CurveRow, EvidenceRow
from .statistics import Summary
from .store import Run
from .tables import Facts, Line, Table, marks


def markdown(table: Table, intervals: bool = False, reference: str | None = None) -> str:
    """With `reference`, show differences from this method, which the table was made against."""
    styles = {"best": "**%s**", "second": "<u>%s</u>"}

    def cell(line: Line, method: str) -> str:
        return _cell(line, method, styles, intervals, reference)

    head = [*_heads(table), *table.methods]
    rows = [[*_labels(table, line), *(cell(line, m) for m in table.methods)] for line in table.lines]
    body = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*body, *_notes(table, reference)]) + "\n"


def latex(table: Table, intervals: bool = False, reference: str | None = None) -> str:
    signs = {"_": r"\_", "%": r"\%", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--"}
    styles = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}

    def cell(line: Line, method: str) -> str:
        return _cell(line, method, styles, intervals, reference)

    def row(cells: list[str]) -> str:
        text = " & ".join(cells)
        for sign, command in signs.items():
            text = text.replace(sign, command)
        return text + r" \\"

    heads = _heads(table)
    columns = "".join("r" if head == "items" else "l" for head in heads) + "r" * len(table.methods)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            row([*heads, *table.methods]),
            r"\midrule",
            *(row([*_labels(table, line), *(cell(line, m) for m in table.methods)]) for line in table.lines),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {note}" for note in _notes(table, reference) if note),
            "",
        ]
    )


def comma_separated(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    about = ["run", "target", "subset", "setting", "metric", "higher_is_better", "items", "degenerate"]
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


TABLE_FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": as_json,
}


def _heads(table: Table) -> list[str]:
    return [*(["run"] if len(table.runs) > 1 else []), "target", "items", "setting", "metric"]


def _labels(table: Table, line: Line) -> list[str]:
    arrow = "↑" if line.higher_is_better else "↓"
    labels = [_who(line), str(line.items), line.setting, f"{line.metric} {arrow}"]
    return [line.run, *labels] if len(table.runs) > 1 else labels


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
    notes = ["", "↑ higher is better, ↓ lower is better."]
    if any(line.published for line in table.lines):
        notes.append("Paper: its numbers for this model and benchmark.")
    if reference:
        notes.append(f"In parentheses: difference from {reference} on the same items; wins/ties/losses against it.")
    for name, facts in table.runs.items():
        notes += _notes_on_run(facts, [line for line in table.lines if line.run == name])
        without = [subset for run, subset in table.empty if run == name]
        notes += [f"No rows for {subset} answers: no compared item has one." for subset in without]
    return notes


def _notes_on_run(facts: Facts, lines: list[Line]) -> list[str]:
    made = facts.settings
    model = model_label(made["model"], bool(made["family"]))
    notes = [
        f"{model} on {made['benchmark']}; blur {made['blur']:.3g} of the longer side, {made['steps']} steps, "
        f"seed {made['seed']}."
    ]
    if facts.passes:
        cost = "; ".join(f"{method}: {count:.3g}" for method, count in facts.passes.items())
        notes.append(f"Forward passes per attribution, mean: {cost}.")
    flat = {(_who(line), line.setting): line.degenerate for line in lines if line.degenerate}
    notes += [f"Degenerate curves ({who}, {setting}): {count}." for (who, setting), count in flat.items()]
    zeros = {(_who(line), line.setting): line.unranked for line in lines if line.unranked}
    for (who, setting), counts in zeros.items():
        said = ", ".join(f"{method} {count}" for method, count in counts.items())
        notes.append(f"All-zero scores, ranked by position ({who}, {setting}): {said}.")
    measured = facts.items - sum(facts.left_out.values())
    if facts.compared < measured:
        notes.append(f"Compared on the {facts.compared} of {measured} items that all columns have.")
    if facts.truncated:
        notes.append(f"Responses cut off at the token budget: {facts.truncated}.")
    if facts.verdicts:
        right, graded = facts.verdicts.get("correct", 0), sum(facts.verdicts.values())
        others = [f", {facts.verdicts[name]} {name}" for name in ("unparsed", "undecided") if name in facts.verdicts]
        notes.append(f"Answers: {right} of {graded} correct{''.join(others)}.")
    if facts.left_out:
        notes.append(f"Left out: {sum(facts.left_out.values())} of {facts.items} items.")
        notes += [f"Left out {count}: {reason}" for reason, count in facts.left_out.items()]
    notes += [f"Unreadable file, number of items unknown: {file}: {reason}" for file, reason in facts.lost.items()]
    notes += [f"Failed {count} times: {reason}" for reason, count in facts.failures.items()]
    return notes


RawTable = Literal["curve", "evidence"]
RAW_TABLES: tuple[RawTable, ...] = ("curve", "evidence")


def raw_rows(run: Run, table: RawTable) -> Sequence[CurveRow] | Sequence[EvidenceRow]:
    """Curves, one per item, target, method, setting and direction; or evidence metrics."""
    return run.rows.curve if table == "curve" else run.rows.evidence


def export_parquet(runs: Sequence[Run], table: RawTable, path: Path) -> None:
    """Write the raw rows of runs, each with the settings of its run and the verdict on its item."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow; install it with: pip install pyarrow") from error
    rows = []
    for run in runs:
        correct = {row["key"]: row["correct"] for row in run.rows.item}
        settings = {k: json.dumps(v) if isinstance(v, dict | list | bool) else v for k, v in run.settings.items()}
        rows += [{**settings, **row, "correct": correct[row["item"]]} for row in raw_rows(run, table)]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
