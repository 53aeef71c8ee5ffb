"""Sentences about a run follow from its numbers."""

from __future__ import annotations

import pytest

from vtrace.errors import InputError
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.statistics import Summary
from vtrace.faithfulness.store import Run
from vtrace.faithfulness.tables import Line, Table, tabulate
from vtrace.faithfulness.verdicts import (
    all_comparisons,
    count_standings,
    discrimination,
    distinguished_pairs,
    overall_comparisons,
    standing,
)

METHODS = ("vtrace", "vtrace-ordered", "ifr", "loo", "random")


def summary(mean, low=None, high=None):
    """The difference to VTrace lies between `low` and `high`."""
    return Summary(mean, mean - 0.1, mean + 0.1, low, low, high)


def line(cells, up=True, target="response", setting="image", metric="RISE ins"):
    return Line(target, "all", setting, metric, up, 10, 0, cells, {})


@pytest.mark.parametrize(
    ("low", "high", "up", "expected"),
    [(0.1, 0.2, True, "better"), (-0.2, -0.1, True, "worse"), (-0.1, 0.1, True, "level"), (0.1, 0.2, False, "worse")],
)
def test_a_method_is_better_only_where_the_interval_says_so(low, high, up, expected):
    assert standing(line({"ifr": summary(0.5, low, high)}, up), "ifr") == expected


@pytest.fixture
def table():
    """Against VTrace: IFR is worse in insertion and level in deletion, LOO better, random worse, ordered level."""
    lines = []
    for target in ("response", "answer"):
        for setting in ("image", "joint"):
            for metric in ("RISE", "MAS"):
                up, down = f"{metric} ins", f"{metric} del"
                insertion = {
                    "vtrace": summary(0.9),
                    "vtrace-ordered": summary(0.9, -0.1, 0.1),
                    "ifr": summary(0.8, -0.2, -0.1),
                    "loo": summary(0.95, 0.01, 0.1),
                    "random": summary(0.5, -0.5, -0.3),
                }
                deletion = {
                    "vtrace": summary(0.1),
                    "vtrace-ordered": summary(0.1, -0.1, 0.1),
                    "ifr": summary(0.12, -0.1, 0.1),
                    "loo": summary(0.05, -0.1, -0.01),
                    "random": summary(0.5, 0.3, 0.5),
                }
                lines.append(line(insertion, True, target, setting, up))
                lines.append(line(deletion, False, target, setting, down))
        alike = {name: summary(0.5) for name in METHODS}
        lines += [line(alike, True, target, "image evidence", metric) for metric in ("auc", "energy")]
    return Table(list(METHODS), "vtrace", lines, {})


def test_every_comparison_is_told_with_its_numbers(table):
    said = all_comparisons(table)
    assert said[0] == (
        "Target response, image setting: VTrace (RISE insertion/deletion 0.900/0.100) beats in one direction and is "
        "level in the other with ifr 0.800/0.120; **loses to** loo 0.950/0.050."
    )
    assert len(said) == 8 + 4 + 4
    assert "RISE 0.900/0.100 against 0.900/0.100, level in insertion, level in deletion" in said[8]
    assert said[12].startswith("Rank AUC of evidence patches, target response: vtrace 0.500, ")


def test_comparisons_are_summed_up(table):
    assert overall_comparisons(table)[0] == (
        "**Whole responses, by RISE**: VTrace beats ifr, random; is level with vtrace-ordered; **loses to** loo."
    )
    assert count_standings(table, "ifr") == {"better": 0, "level": 8 + 4, "worse": 8}


def test_a_benchmark_that_separates_is_told_from_one_that_does_not(table):
    assert discrimination(table) == (
        "The benchmark separates rankings from noise: in image insertion, random order reaches 0.500 (required: at "
        "most 0.62), leave-one-out 0.950 (required: at least 0.15 more). Methods within 0.01 of the best: 1 of 5 for "
        "target response, where means range from 0.500 to 0.950; 1 of 5 for target answer, where means range from "
        "0.500 to 0.950."
    )
    for one in table.lines:
        one.cells["random"] = summary(0.7)
    assert discrimination(table).startswith("The benchmark does not separate rankings from noise")


def test_pairs_that_differ_by_more_than_chance_are_counted():
    heights = {"a": 0.9, "b": 0.5, "c": 0.5}
    rows = RunRows()
    for number in range(20):
        rows.item.append({"key": f"{number}", "correct": 1, "verdict": "correct", "finish": "stop"})
        for target in ("response", "answer"):
            for method, height in heights.items():
                head = {"item": f"{number}", "target": target, "method": method}
                value = height + 0.01 * ((number + len(method)) % 3 - 1) * (1 if method == "b" else 0)
                rows.result.append(head)
                for mode in ("insertion", "deletion"):
                    curve = {"setting": "image", "mode": mode, "rise": value, "mas": value}
                    rows.curve.append(head | curve | {"degenerate": 0, "unranked": 0})
    run = Run({"model": "m", "family": "", "benchmark": "b", "blur": 0.25, "steps": 20, "seed": 0}, rows)
    assert distinguished_pairs(run, list(heights)) == (
        "Of 3 pairs of methods, image insertion distinguishes 2 for target response and 2 for target answer."
    )
    with pytest.raises(InputError, match="the run has no RISE ins in the joint setting for target answer"):
        tabulate(run).line("answer", "joint", "RISE ins")
