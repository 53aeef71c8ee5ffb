"""Tables in the paper's layout: methods as columns, a line for every run, target, setting and metric."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from ..errors import InputError
from ..types import model_label
from .curves import MODES, Mode
from .rows import EvidenceKind, ResultRow, RunSettings
from .statistics import Summary, summarise
from .store import Run

Subset = Literal["all", "correct", "incorrect"]
SUBSETS: tuple[Subset, ...] = get_args(Subset)
TableSetting = Literal[
    "image", "joint", "question", "image evidence", "image dependence", "question evidence", "question dependence"
]
AreaMetric = Literal["rise", "mas"]
CurveSetting = Literal["image", "joint", "question"]  # the last one for text-only models
CURVE_SETTINGS: tuple[CurveSetting, ...] = get_args(CurveSetting)
AREA_METRICS: tuple[AreaMetric, ...] = get_args(AreaMetric)
KNOWN_TRUTH = ("energy", "pointing", "auc", "auc_others", "recall_5", "recall_10", "recall_20")
MEASURED = ("dependence_20",)


class EvidenceMetrics(NamedTuple):
    """Which evidence rows a setting of the table summarises."""

    kind: EvidenceKind
    metrics: tuple[str, ...]


EVIDENCE_SETTINGS: Mapping[TableSetting, EvidenceMetrics] = {
    "image evidence": EvidenceMetrics("image", KNOWN_TRUTH),
    "image dependence": EvidenceMetrics("image", MEASURED),
    "question evidence": EvidenceMetrics("question", KNOWN_TRUTH),
    "question dependence": EvidenceMetrics("question", MEASURED),
}


@dataclass(frozen=True)
class Line:
    """One row of a table: a metric in one setting, for one target and subset, over all methods."""

    target: str
    subset: Subset
    setting: TableSetting
    metric: str  # such as "RISE ins"
    higher_is_better: bool
    items: int  # on which every method succeeded
    degenerate: int
    cells: dict[str, Summary]
    published: dict[str, float]
    unranked: dict[str, int] = field(default_factory=dict)  # items on which a method gave only zeros
    run: str = ""  # name of the run


@dataclass(frozen=True)
class Facts:
    """What the notes below the table of a run say."""

    settings: RunSettings
    verdicts: dict[str, int]  # on answers of the compared items: correct, wrong, unparsed, undecided
    items: int  # including those left out
    compared: int  # measured by all methods
    truncated: int  # of the compared ones: responses cut off at the token budget
    left_out: dict[str, int]  # items by reason
    lost: dict[str, str]  # files of the benchmark that could not be read: reason
    failures: dict[str, int]  # of single methods, by reason
    passes: dict[str, float] = field(default_factory=dict)  # forward passes of an attribution by each method, mean


@dataclass(frozen=True)
class Table:
    """A run, summarised; or several runs, one below the other."""

    methods: list[str]
    against: str | None  # the method that differences, wins and losses refer to
    lines: list[Line]
    runs: dict[str, Facts]  # by name
    empty: tuple[tuple[str, Subset], ...] = ()  # runs and their subsets without any items

    def find(self, target: str, setting: TableSetting, metric: str, subset: Subset = "all") -> Line | None:
        """The line of a metric; None if not all methods have values for it."""
        wanted = (target, subset, setting, metric)
        return next((x for x in self.lines if (x.target, x.subset, x.setting, x.metric) == wanted), None)

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(line.target for line in self.lines))

    @property
    def settings(self) -> list[CurveSetting]:
        """Settings of its curves, in the usual order."""
        present = {line.setting for line in self.lines}
        return [setting for setting in CURVE_SETTINGS if setting in present]

    def line(self, target: str, setting: TableSetting, metric: str) -> Line:
        """The line of a metric, or an error if it is missing."""
        found = self.find(target, setting, metric)
        if found is None:
            raise InputError(f"the run has no {metric} in the {setting} setting for target {target}")
        return found


def tabulate(
    run: Run,
    *,
    methods: Sequence[str] | None = None,
    subsets: Sequence[Subset] = ("all",),
    evidence: bool = True,
    against: str | None = "vtrace",
    with_degenerate: bool = True,
) -> Table:
    """Summaries over the items on which every chosen method succeeded, so that columns can be compared."""
    present = list(dict.fromkeys(row["method"] for row in run.rows.result))
    chosen = list(methods or present)
    if missing := [name for name in chosen if name not in present]:
        raise InputError(f"the run has no results of {missing[0]}; it has: {', '.join(present) or 'none'}")
    if not chosen:
        reasons = [*(row["reason"] for row in run.rows.left_out), *(row["reason"] for row in run.rows.failure)]
        why = f": {reasons[0]}" if reasons else " yet"
        raise InputError(f"the run has no results{why}")
    correct = {row["key"]: row["correct"] for row in run.rows.item}
    lines = []
    for target in dict.fromkeys(row["target"] for row in run.rows.result):
        for subset in check_subsets(subsets):
            keep = _subset(correct, subset)
            lines += _curve_lines(run, target, subset, keep, chosen, against, with_degenerate)
            if evidence:
                lines += _evidence_lines(run, target, subset, keep, chosen, against)
    against, name = against if against in chosen else None, run_name(run)
    facts = _facts(run, chosen, everything=methods is None)
    filled = {line.subset for line in lines}
    empty = tuple((name, subset) for subset in check_subsets(subsets) if subset not in filled)
    return Table(chosen, against, [replace(line, run=name) for line in lines], {name: facts}, empty)


def mean_rises(run: Run) -> dict[str, float]:
    """Mean RISE of every method, insertion in the image setting, over the items that all methods have.

    It is that of whole responses, or of answers in a run that measured only these.
    """
    rows = [r for r in run.rows.curve if (r["setting"], r["mode"]) == ("image", "insertion")]
    targets = dict.fromkeys(r["target"] for r in rows)
    target = "response" if "response" in targets else next(iter(targets), None)
    mine = {(r["method"], r["item"]): r["rise"] for r in rows if r["target"] == target}
    items, values = _paired(mine, list(dict.fromkeys(method for method, _ in mine)))
    return {method: float(column.mean()) for method, column in values.items()} if items else {}


def together(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Tables of several runs with the same methods as one."""
    lines = [replace(line, run=name) for table, name in zip(tables, names, strict=True) for line in table.lines]
    facts = {name: fact for table, name in zip(tables, names, strict=True) for fact in table.runs.values()}
    empty = tuple((name, subset) for table, name in zip(tables, names, strict=True) for _, subset in table.empty)
    return replace(tables[0], lines=lines, runs=facts, empty=empty)


def common_methods(runs: Sequence[Run]) -> list[str]:
    """Methods that all of these runs have, in the order of the first."""
    present = [list(dict.fromkeys(row["method"] for row in run.rows.result)) for run in runs]
    common = [name for name in present[0] if all(name in others for others in present)]
    if not common:
        raise InputError("these runs have no method in common")
    return common


def run_name(run: Run) -> str:
    name = model_label(_checkpoint(run.settings["model"]), bool(run.settings["family"]))
    return f"{name} on {run.settings['benchmark']}"


def _facts(run: Run, methods: list[str], everything: bool) -> Facts:
    """`everything` also counts failures of methods without a column."""
    of_method = [{row["item"] for row in run.rows.result if row["method"] == name} for name in methods]
    common = set.intersection(*of_method)
    compared = [row for row in run.rows.item if row["key"] in common]
    failed = [row for row in run.rows.failure if everything or row["method"] in methods]
    return Facts(
        run.settings,
        dict(Counter(row["verdict"] for row in compared if row["verdict"])),
        len({row["key"] for row in run.rows.item} | {row["item"] for row in run.rows.left_out}),
        len(compared),
        sum(row["finish"] == "length" for row in compared),
        dict(Counter(row["reason"] for row in run.rows.left_out)),
        {row["file"]: row["reason"] for row in run.rows.lost},
        dict(Counter(row["reason"] for row in failed)),
        _mean_passes([row for row in run.rows.result if row["item"] in common], methods),
    )


def _mean_passes(results: Sequence[ResultRow], methods: Sequence[str]) -> dict[str, float]:
    """Forward passes by method; methods whose passes were not counted are left out."""
    found = {}
    for name in methods:
        counts = [count for row in results if row["method"] == name and (count := row.get("passes")) is not None]
        if counts:
            found[name] = float(np.mean(counts))
    return found


def check_subsets(names: Sequence[str]) -> Sequence[Subset]:
    """The subsets of these names."""
    if unknown := [name for name in names if name not in SUBSETS]:
        raise InputError(f"unknown subset {unknown[0]!r}; use one of: {', '.join(SUBSETS)}")
    return cast(Sequence[Subset], names)


def _subset(correct: dict[str, int | None], subset: Subset) -> set[str]:
    wanted = {"all": None, "correct": 1, "incorrect": 0}[subset]
    return {key for key, value in correct.items() if wanted is None or value == wanted}


def _curve_lines(
    run: Run,
    target: str,
    subset: Subset,
    keep: set[str],
    methods: list[str],
    against: str | None,
    with_degenerate: bool,
) -> list[Line]:
    lines = []
    rows = [r for r in run.rows.curve if r["target"] == target and r["item"] in keep]
    for setting in CURVE_SETTINGS:
        for metric in AREA_METRICS:
            for mode in MODES:
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
                zeros = [r for r in used if r["unranked"] and r["item"] in items and r["method"] in methods]
                unranked = dict(Counter(r["method"] for r in zeros))
                lines.append(Line(target, subset, setting, label, up, len(items), few, cells, known, unranked))
    return lines


def _evidence_lines(
    run: Run, target: str, subset: Subset, keep: set[str], methods: list[str], against: str | None
) -> list[Line]:
    lines = []
    rows = [r for r in run.rows.evidence if r["target"] == target and r["item"] in keep]
    for setting, (kind, metrics) in EVIDENCE_SETTINGS.items():
        for metric in metrics:
            mine = {(r["method"], r["item"]): r["value"] for r in rows if (r["kind"], r["metric"]) == (kind, metric)}
            items, values = _paired(mine, methods)
            if items:
                cells = summarise(values, against, True)
                lines.append(Line(target, subset, setting, _label(metric), True, len(items), 0, cells, {}))
    return lines


def _label(metric: str) -> str:
    name, _, share = metric.partition("_")
    return f"{name} @ {share} %" if share.isdecimal() else f"{name} against {share}" if share else name


class PairedValues(NamedTuple):
    """The items that every method has, and the values of each method over them."""

    items: list[str]
    values: dict[str, np.ndarray]


def _paired(values: dict[tuple[str, str], float | None], methods: list[str]) -> PairedValues:
    """Values by method and item, paired by item. The database stores NaN as None."""
    items = dict.fromkeys(item for _, item in values)
    common = [item for item in items if all(values.get((m, item)) is not None for m in methods)]
    return PairedValues(common, {m: np.array([values[m, i] for i in common]) for m in methods})


def published(
    settings: RunSettings, subset: Subset, setting: CurveSetting, metric: AreaMetric, mode: Mode
) -> dict[str, float]:
    """The paper's numbers for this model and benchmark, by method."""
    wanted = (_checkpoint(settings["model"]), settings["benchmark"], subset, setting, metric, mode)
    return _published().get(wanted, {})


@cache
def _published() -> dict[tuple[str, ...], dict[str, float]]:
    text = files(__package__).joinpath("published.csv").read_text("utf-8")
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        key = (_checkpoint(row["model"]), *(row[name] for name in ("benchmark", "subset", "setting", "metric", "mode")))
        found.setdefault(key, {})[row["method"]] = float(row["value"])
    return found


def _checkpoint(model: str) -> str:
    """The name of the checkpoint without folder, revision and the suffix HF of InternVL checkpoints."""
    return PurePath(model.partition("@")[0]).name.removesuffix("-HF")


def marks(line: Line) -> dict[str, str]:
    """The best and second best methods of a line; equal printed values get equal marks."""
    printed = {method: f"{cell.mean:.3f}" for method, cell in line.cells.items()}
    order = sorted(set(printed.values()), key=float, reverse=line.higher_is_better)
    places = dict(zip(order, ("best", "second"), strict=False))
    return {method: places[text] for method, text in printed.items() if text in places}
