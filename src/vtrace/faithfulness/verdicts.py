"""Conclusions from a run, in sentences: which method beats which, and whether the benchmark separates them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Literal, get_args

from .store import Run
from .tables import CurveSetting, Line, Table, TableSetting, tabulate

Standing = Literal["better", "level", "worse"]
COMPARED_METRICS = ("RISE", "MAS")
NOISE_AT_MOST, SIGNAL_AT_LEAST = 0.62, 0.15  # insertion of random order; and by how much leave-one-out is above
NEAR_BEST = 0.01

# What VTrace does, by the standings of its rival in insertion and in deletion.
BY_DIRECTION: Mapping[frozenset[Standing], str] = {
    frozenset({"worse"}): "beats",
    frozenset({"worse", "level"}): "beats in one direction and is level in the other with",
    frozenset({"level"}): "is level with",
    frozenset({"level", "better"}): "**loses in one direction** and is level in the other with",
    frozenset({"better"}): "**loses to**",
    frozenset({"worse", "better"}): "beats in one direction and **loses in the other** to",
}
# What VTrace does, by the standings of its rival wherever the two are not level.
OVERALL: Mapping[frozenset[Standing], str] = {
    frozenset({"worse"}): "beats",
    frozenset(): "is level with",
    frozenset({"worse", "better"}): "is better in some comparisons and worse in others than",
    frozenset({"better"}): "**loses to**",
}


def standing(line: Line, method: str) -> Standing:
    """The method compared with the table's reference: level if the interval contains zero."""
    cell = line.cells[method]
    if cell.difference_low is None or cell.difference_low <= 0 <= (cell.difference_high or 0):
        return "level"
    return "better" if (cell.difference_low > 0) == line.higher_is_better else "worse"


def count_standings(table: Table, method: str) -> dict[Standing, int]:
    """How often the method is better, level and worse, over all lines of a table."""
    counts = Counter(standing(line, method) for line in table.lines)
    return {name: counts[name] for name in get_args(Standing)}


def all_comparisons(table: Table) -> list[str]:
    """Every comparison in a sentence, with the numbers."""
    everywhere = list(product(table.targets, table.settings))
    return [
        *(_against_rivals(table, metric, *where) for metric in COMPARED_METRICS for where in everywhere),
        *(_ordered_against_sum(table, *where) for where in everywhere),
        *(
            _evidence_order(table, target, metric, name)
            for metric, name in (("auc", "Rank AUC"), ("energy", "Energy"))
            for target in table.targets
        ),
    ]


def _against_rivals(table: Table, metric: str, target: str, setting: CurveSetting) -> str:
    lines = _both_directions(table, target, setting, metric)
    rivals = [name for name in table.methods if name not in ("vtrace", "vtrace-ordered", "random")]
    grouped = _group({rival: _standings(lines, rival) for rival in rivals}, BY_DIRECTION)
    named = {words: [f"{rival} {_means(lines, rival)}" for rival in group] for words, group in grouped.items()}
    own = f"VTrace ({metric} insertion/deletion {_means(lines, 'vtrace')})"
    return f"Target {target}, {setting} setting: {own} {_sentence(named)}."


def _ordered_against_sum(table: Table, target: str, setting: CurveSetting) -> str:
    said = []
    for metric in COMPARED_METRICS:
        lines = _both_directions(table, target, setting, metric)
        insertion, deletion = (standing(line, "vtrace-ordered") for line in lines)
        said.append(
            f"{metric} {_means(lines, 'vtrace-ordered')} against {_means(lines, 'vtrace')}, {insertion} in insertion, "
            f"{deletion} in deletion"
        )
    return f"Ordered paths against the paper's sum, target {target}, {setting} setting: {'; '.join(said)}."


def _evidence_order(table: Table, target: str, metric: str, name: str) -> str:
    setting: TableSetting = "image evidence" if "image" in table.settings else "question evidence"
    inputs = "patches" if setting == "image evidence" else "words"
    cells = table.line(target, setting, metric).cells
    order = ", ".join(f"{m} {cells[m].mean:.3f}" for m in sorted(cells, key=lambda m: -cells[m].mean))
    return f"{name} of evidence {inputs}, target {target}: {order}."


def overall_comparisons(table: Table) -> list[str]:
    """A summary: both settings and both directions together."""
    found = []
    for target, metric in product(table.targets, COMPARED_METRICS):
        lines = [line for line in table.lines if line.target == target and line.metric.startswith(metric)]
        rivals = [name for name in table.methods if name != "vtrace"]
        grouped = _group({rival: _standings(lines, rival) - {"level"} for rival in rivals}, OVERALL)
        what = "Answers" if target == "answer" else "Whole responses"
        found.append(f"**{what}, by {metric}**: VTrace {_sentence(grouped)}.")
    return found


def _standings(lines: Sequence[Line], rival: str) -> frozenset[Standing]:
    return frozenset(standing(line, rival) for line in lines)


def _group(rivals: Mapping[str, frozenset[Standing]], words: Mapping[frozenset[Standing], str]) -> dict[str, list[str]]:
    """Rivals grouped by how VTrace compares with them, in the order of the phrases."""
    grouped: dict[str, list[str]] = {said: [] for said in words.values()}
    for rival, standings in rivals.items():
        grouped[words[standings]].append(rival)
    return grouped


def _sentence(grouped: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{words} {', '.join(group)}" for words, group in grouped.items() if group)


def discrimination(table: Table) -> str:
    """Whether the benchmark separates rankings from noise, and how many methods are close to the best."""
    setting = table.settings[0]
    whole = table.line("response", setting, "RISE ins")
    noise, measured = whole.cells["random"].mean, whole.cells["loo"].mean
    fair = noise <= NOISE_AT_MOST and measured - noise >= SIGNAL_AT_LEAST
    close = []
    for target in table.targets:
        heights = [cell.mean for cell in table.line(target, setting, "RISE ins").cells.values()]
        near = sum(max(heights) - height < NEAR_BEST for height in heights)
        close.append(
            f"{near} of {len(heights)} for target {target}, where means range from {min(heights):.3f} to "
            f"{max(heights):.3f}"
        )
    separates = "separates" if fair else "does not separate"
    return (
        f"The benchmark {separates} rankings from noise: in {setting} insertion, random order reaches {noise:.3f} "
        f"(required: at most {NOISE_AT_MOST}), leave-one-out {measured:.3f} (required: at least {SIGNAL_AT_LEAST} "
        f"more). Methods within {NEAR_BEST} of the best: {'; '.join(close)}."
    )


def distinguished_pairs(run: Run, methods: Sequence[str]) -> str:
    """How many pairs of methods differ by more than chance. A threshold on means cannot show this."""
    curves = [row for row in run.rows.curve if row["mode"] == "insertion"]
    part = replace(run, rows=replace(run.rows, curve=curves))
    tables = {own: tabulate(part, methods=methods, against=own, evidence=False) for own in methods}
    first = tables[methods[0]]
    setting, pairs = first.settings[0], list(combinations(methods, 2))
    counts = []
    for target in first.targets:
        lines = {own: table.line(target, setting, "RISE ins") for own, table in tables.items()}
        apart = sum(standing(lines[own], other) != "level" for own, other in pairs)
        counts.append(f"{apart} for target {target}")
    return f"Of {len(pairs)} pairs of methods, {setting} insertion distinguishes {' and '.join(counts)}."


def _both_directions(table: Table, target: str, setting: CurveSetting, metric: str) -> list[Line]:
    return [table.line(target, setting, f"{metric} {mode}") for mode in ("ins", "del")]


def _means(lines: Sequence[Line], method: str) -> str:
    return "/".join(f"{line.cells[method].mean:.3f}" for line in lines)
