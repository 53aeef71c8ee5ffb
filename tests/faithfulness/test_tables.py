"""Tables of a run: four formats, intervals, published numbers, what is counted and what is said below them."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from vtrace.errors import InputError
from vtrace.faithfulness.render import TABLE_FORMATS, export_parquet, latex, markdown, raw_rows
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.statistics import Summary, summarise
from vtrace.faithfulness.store import Run, read_run
from vtrace.faithfulness.tables import Line, marks, published, run_name, tabulate, together


def test_tables_come_in_four_formats(run_folder):
    table = tabulate(read_run(run_folder), subsets=("all", "correct"))
    text = {name: render(table) for name, render in TABLE_FORMATS.items()}
    assert "| response | 3 | image | RISE ins ↑ |" in text["markdown"]
    assert text["markdown"].count("**") >= 2 * len(table.lines)
    assert r"\begin{tabular}{lrllrr}" in text["latex"]
    assert text["csv"].splitlines()[0].startswith("run,target,subset,setting,metric")
    assert len(text["csv"].splitlines()) == 1 + 2 * len(table.lines)
    assert len(json.loads(text["json"])["lines"]) == len(table.lines)


def test_raw_rows_are_exported_as_parquet(run_folder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    run = read_run(run_folder)
    for table, own in (("curve", "rise"), ("evidence", "metric")):
        export_parquet([run, run], table, tmp_path / "rows.parquet")
        loaded = parquet.read_table(tmp_path / "rows.parquet")
        assert loaded.num_rows == 2 * len(raw_rows(run, table)) > 0
        assert {"model", "method", own, "correct"} <= set(loaded.column_names)


def test_published_numbers_are_found_by_model_and_benchmark():
    settings = {"model": "Qwen/Qwen3-VL-8B-Instruct", "benchmark": "mmstar"}
    found = published(settings, "all", "image", "rise", "insertion")
    assert set(found) == {"vtrace", "rollout", "ifr", "flashtrace", "flowtracer", "attnlrp", "reagent", "heta"}
    assert published({"model": "pinhole", "benchmark": "shapes"}, "all", "image", "rise", "insertion") == {}
    for same in ("/models/Qwen3-VL-8B-Instruct/", "Qwen/Qwen3-VL-8B-Instruct@main"):
        assert published(settings | {"model": same}, "all", "image", "rise", "insertion") == found
    assert published(settings | {"model": "OpenGVLab/InternVL3_5-8B-HF"}, "all", "image", "rise", "insertion")


def test_differences_and_published_numbers_stand_in_the_cells(run_folder):
    run = read_run(run_folder)
    known = dataclasses.replace(
        run, settings=run.settings | {"model": "Qwen/Qwen3-VL-8B-Instruct", "benchmark": "mmstar"}
    )
    for curve in known.rows.curve:
        curve["method"] = {"attention": "ifr"}.get(curve["method"], curve["method"])
    for row in known.rows.result:
        row["method"] = {"attention": "ifr"}.get(row["method"], row["method"])
    table = tabulate(known, against="random", evidence=False)
    for render in (markdown, latex):
        text = render(table, intervals=True, reference="random")
        assert re.search(r"\([+-]0\.\d{3} \[[+-]0\.\d{3}(–|--)[+-]0\.\d{3}\]; \d/\d/\d\)", text)
        assert "(paper: 0." in text
        assert "difference from random on the same items; wins/ties/losses" in text


def test_differences_are_paired_and_wins_counted():
    rng = np.random.default_rng(1)
    hard = rng.random(200)  # items differ far more than methods do
    found = summarise({"a": hard, "b": hard + 0.01}, "a", higher_is_better=True)
    assert (found["b"].wins, found["b"].ties, found["b"].losses) == (200, 0, 0)
    assert found["b"].difference_low == pytest.approx(0.01)
    assert found["a"].high - found["a"].low > 0.05
    assert summarise({"a": hard, "b": hard + 0.01}, "a", higher_is_better=False)["b"].losses == 200


def test_those_that_print_alike_are_marked_alike():
    cells = {name: Summary(mean, 0, 1) for name, mean in dict(a=0.9001, b=0.8999, c=0.7, d=0.7002, e=0.1).items()}
    line = Line("response", "all", "image", "RISE ins", True, 9, 0, cells, {})
    assert marks(line) == {"a": "best", "b": "best", "c": "second", "d": "second"}
    assert marks(dataclasses.replace(line, higher_is_better=False)) == {"e": "best", "c": "second", "d": "second"}


def small_run(flat=(), correct=(1, 1, 0, 0), failures=()):
    """Four items, two methods; `flat` are items whose curves are degenerate."""
    keys = [f"item-{k}" for k in range(4)]
    head = [{"item": key, "target": "response", "method": method} for key in keys for method in ("random", "centre")]
    items = [
        {"key": key, "correct": right, "verdict": "correct" if right else "wrong", "finish": "stop"}
        for key, right in zip(keys, correct, strict=True)
    ]
    curves = [
        row
        | {"setting": setting, "mode": mode, "rise": 0.5, "mas": 0.5}
        | {"degenerate": int(row["item"] in flat), "unranked": 0}
        for row in head
        for setting in ("image", "joint")
        for mode in ("insertion", "deletion")
    ]
    failed = [{"item": "item-0", "method": method, "reason": reason} for method, reason in failures]
    settings = {"model": "m", "family": "", "benchmark": "b", "blur": 0.25, "steps": 20, "seed": 0}
    return Run(settings, RunRows(item=items, result=head, curve=curves, failure=failed))


def test_degenerate_curves_are_counted_where_they_are_and_can_be_left_out():
    run = small_run(flat=("item-0", "item-2", "item-3"))
    text = markdown(tabulate(run, subsets=("correct", "incorrect")))
    assert "Degenerate curves (response, correct, image): 1." in text
    assert "Degenerate curves (response, incorrect, image): 2." in text
    table = tabulate(run, with_degenerate=False)
    assert {(line.items, line.degenerate) for line in table.lines} == {(1, 0)}


def test_a_subset_without_items_is_named_instead_of_vanishing():
    run = small_run()
    for row in run.rows.item:
        row["correct"] = 1
    table = tabulate(run, subsets=("correct", "incorrect"))
    assert table.empty == (("m on b", "incorrect"),)
    note = "No rows for incorrect answers: no compared item has one."
    assert note in markdown(table)
    assert f"% {note}" in TABLE_FORMATS["latex"](table)
    assert json.loads(TABLE_FORMATS["json"](table))["empty"] == [["m on b", "incorrect"]]
    assert tabulate(run).empty == ()


def test_scores_that_are_all_zero_are_counted_by_method():
    run = small_run()
    for row in run.rows.curve:
        row["unranked"] = int((row["item"], row["method"], row["setting"]) == ("item-1", "centre", "image"))
    table = tabulate(run)
    assert "All-zero scores, ranked by position (response, image): centre 1." in markdown(table)
    assert "(response, joint)" not in markdown(table)
    assert "All-zero scores" not in markdown(tabulate(run, methods=["random"]))
    head, *rows = (line.split(",") for line in TABLE_FORMATS["csv"](table).splitlines())
    zeros = {(row[head.index("setting")], row[head.index("method")]): row[head.index("unranked")] for row in rows}
    assert zeros == {
        ("image", "random"): "0",
        ("image", "centre"): "1",
        ("joint", "random"): "0",
        ("joint", "centre"): "0",
    }


def test_notes_are_about_the_columns_that_are_shown():
    run = small_run(failures=[("random", "no noise today"), ("loo", "out of memory")])
    run.rows.result.append({"item": "item-0", "target": "response", "method": "loo"})
    assert "out of memory" not in markdown(tabulate(run, methods=["random", "centre"]))
    assert "Failed 1 times: no noise today" in markdown(tabulate(run, methods=["random", "centre"]))
    (facts,) = tabulate(run, methods=["random", "loo"]).runs.values()
    assert facts.verdicts == {"correct": 1}
    assert "Compared on the 1 of 4 items that all columns have." in markdown(tabulate(run, methods=["random", "loo"]))
    assert "Compared on" not in markdown(tabulate(run, methods=["random", "centre"]))


def test_a_method_that_failed_everywhere_has_no_column_and_is_named_all_the_same():
    run = small_run(failures=[("reagent", "reagent: no vocabulary")])
    assert tabulate(run).methods == ["random", "centre"]
    assert "Failed 1 times: reagent: no vocabulary" in markdown(tabulate(run))


def test_responses_that_were_cut_off_are_counted():
    run = small_run()
    assert "cut off" not in markdown(tabulate(run))
    run.rows.item[2]["finish"] = "length"
    assert "Responses cut off at the token budget: 1." in markdown(tabulate(run))


def test_several_runs_stand_one_below_the_other_in_one_table():
    runs = [small_run(), small_run(flat=("item-0",))]
    runs[1].settings["benchmark"] = "other"
    names = [run_name(run) for run in runs]
    assert names == ["m on b", "m on other"]
    tables = [tabulate(run, against="random") for run in runs]
    table = together(tables, names)
    text = markdown(table)
    assert text.startswith("| run | target | items | setting | metric | random | centre |\n")
    assert text.count("| m on b | response |") == text.count("| m on other | response |") == 8
    assert "m on b; blur" in text
    assert "m on other; blur" in text
    assert text.count("Degenerate curves (response, image): 1.") == 1
    assert r"\begin{tabular}{llrllrr}" in latex(table)
    assert r"InternVL3\_5-8B on b & response &" in latex(together(tables, ["InternVL3_5-8B on b", "m on other"]))
    assert {line.split(",")[0] for line in TABLE_FORMATS["csv"](table).splitlines()[1:]} == set(names)
    assert set(json.loads(TABLE_FORMATS["json"](table))["runs"]) == set(names)


def test_a_run_in_which_everything_failed_says_why():
    run = small_run(failures=[("random", "the response has no 'Final answer:' line")])
    run.rows.result.clear()
    with pytest.raises(InputError, match="the run has no results: the response has no 'Final answer:' line"):
        tabulate(run)


def test_differences_say_what_they_are_relative_to(run_folder):
    table = tabulate(read_run(run_folder), against="random")
    head, first, second, *_ = (line.split(",") for line in TABLE_FORMATS["csv"](table).splitlines())
    assert {first[head.index("against")], second[head.index("against")]} == {"random", ""}
    assert json.loads(TABLE_FORMATS["json"](table))["against"] == "random"
    assert json.loads(TABLE_FORMATS["json"](tabulate(read_run(run_folder), against="vtrace")))["against"] is None
