"""What the numbers of a run say, in sentences: who beats whom, and whether the benchmark can tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

from vtrace.faithfulness.store import Run
from vtrace.faithfulness.tables import Line, Table, tabulate

TARGETS = ("response", "answer")
METRICS = ("RISE", "MAS")
WHERE = list(product(TARGETS, ("image", "joint")))


def line_of(table: Table, target: str, setting: str, metric: str) -> Line:
    wanted = (target, "all", setting, metric)
    return next(x for x in table.lines if (x.target, x.subset, x.setting, x.metric) == wanted)


def against(line: Line, method: str) -> str:
    """better, worse or level: the method against the one that the table was made against."""
    cell = line.cells[method]
    if cell.difference_low is None or cell.difference_low <= 0 <= (cell.difference_high or 0):
        return "level"
    return "better" if (cell.difference_low > 0) == line.higher_is_better else "worse"


def judgements(table: Table) -> list[str]:
    """What holds and what does not, comparison by comparison, with the numbers."""
    found = []
    rivals = [m for m in table.methods if m not in ("vtrace", "vtrace-ordered", "random")]
    for metric in METRICS:
        for target, setting in WHERE:
            lines = [line_of(table, target, setting, f"{metric} {mode}") for mode in ("ins", "del")]
            sides: dict[frozenset[str], list[str]] = {side: [] for side in SIDES}
            for rival in rivals:
                sides[frozenset(against(line, rival) for line in lines)].append(f"{rival} {means(lines, rival)}")
            said = "; ".join(f"{words} {', '.join(sides[side])}" for side, words in SIDES.items() if sides[side])
            own = f"VTrace ({metric} insertion/deletion {means(lines, 'vtrace')})"
            found.append(f"Target {target}, {setting} setting: {own} {said}.")
    for target, setting in WHERE:
        said = []
        for metric in METRICS:
            lines = [line_of(table, target, setting, f"{metric} {mode}") for mode in ("ins", "del")]
            verdicts = [against(line, "vtrace-ordered") for line in lines]
            said.append(
                f"{metric} {means(lines, 'vtrace-ordered')} against {means(lines, 'vtrace')}, {verdicts[0]} in "
                f"insertion, {verdicts[1]} in deletion"
            )
        found.append(f"Ordered paths against the paper's sum, target {target}, {setting}: {'; '.join(said)}.")
    for metric, name in (("auc", "Rank AUC"), ("energy", "Energy")):
        for target in TARGETS:
            cells = line_of(table, target, "image evidence", metric).cells
            ranks = ", ".join(f"{m} {cells[m].mean:.3f}" for m in sorted(cells, key=lambda m: -cells[m].mean))
            found.append(f"{name} of the patches that show the evidence, target {target}: {ranks}.")
    return found


def in_short(table: Table) -> list[str]:
    """The same in few words: both settings and both directions together."""
    found = []
    for target, metric in product(TARGETS, METRICS):
        lines = [line for line in table.lines if line.target == target and line.metric.startswith(metric)]
        sides: dict[frozenset[str], list[str]] = {side: [] for side in OVERALL}
        for rival in (m for m in table.methods if m != "vtrace"):
            sides[frozenset(against(line, rival) for line in lines) - {"level"}].append(rival)
        said = "; ".join(f"{words} {', '.join(sides[side])}" for side, words in OVERALL.items() if sides[side])
        found.append(f"**{'Answers' if target == 'answer' else 'Whole responses'}, by {metric}**: VTrace {said}.")
    return found


# What VTrace does, by what its rival is wherever the two are not level.
OVERALL = {
    frozenset({"worse"}): "beats",
    frozenset[str](): "is level with",
    frozenset({"worse", "better"}): "is better in some comparisons and worse in others than",
    frozenset({"better"}): "**loses to**",
}


# What VTrace does, by what its rival is in insertion and in deletion.
SIDES = {
    frozenset({"worse"}): "beats",
    frozenset({"worse", "level"}): "beats in one of the two and is level in the other with",
    frozenset({"level"}): "is level with",
    frozenset({"level", "better"}): "**loses in one of the two** and is level in the other with",
    frozenset({"better"}): "**loses to**",
    frozenset({"worse", "better"}): "beats in one of the two and **loses in the other** to",
}


def discrimination(table: Table) -> str:
    """Whether rankings can be told from noise, and how many of them meet at the top."""
    image = line_of(table, "response", "image", "RISE ins")
    noise, measured = image.cells["random"].mean, image.cells["loo"].mean
    fair = noise <= 0.62 and measured - noise >= 0.15
    close = []
    for target in TARGETS:
        heights = [cell.mean for cell in line_of(table, target, "image", "RISE ins").cells.values()]
        near = sum(max(heights) - h < 0.01 for h in heights)
        close.append(f"{near} of {len(heights)} for target {target}, where means go from {min(heights):.3f} to "
                     f"{max(heights):.3f}")  # fmt: skip
    return (
        f"The benchmark {'tells' if fair else 'does not tell'} a ranking from noise: in image insertion, "
        f"random order reaches {noise:.3f} (at most 0.62 wanted), leave-one-out {measured:.3f} (at least 0.15 more "
        f"wanted). Methods within 0.01 of the best: {'; '.join(close)}."
    )


def told_apart(run: Run, methods: list[str]) -> str:
    """How many pairs of methods differ by more than chance, which no threshold on means can tell."""
    rows = [row for row in run.rows["curve"] if (row["setting"], row["mode"]) == ("image", "insertion")]
    part = replace(run, rows=run.rows | {"curve": rows})
    tables = {own: tabulate(part, methods=methods, against=own, evidence=False) for own in methods}
    pairs = list(combinations(methods, 2))
    counts = []
    for target in TARGETS:
        lines = {own: line_of(table, target, "image", "RISE ins") for own, table in tables.items()}
        apart = sum(against(lines[own], other) != "level" for own, other in pairs)
        counts.append(f"{apart} for target {target}")
    return f"Of {len(pairs)} pairs of methods, image insertion tells apart {' and '.join(counts)}."


def means(lines: list[Line], method: str) -> str:
    return "/".join(f"{line.cells[method].mean:.3f}" for line in lines)
