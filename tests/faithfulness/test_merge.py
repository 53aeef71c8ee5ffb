"""Files of one run as one: nothing twice, nothing lost, and nothing mixed."""

from __future__ import annotations

import dataclasses

import pytest

from support.evaluating import PLAN
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.merge import merge_rows
from vtrace.faithfulness.merge_files import merge_files
from vtrace.faithfulness.render import as_json
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import Shard, read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.faithfulness.traces import read_traces


def part(reply, method, value, key="a", **more):
    """Rows of one item, of which tests look at a few columns."""
    return RunRows(
        item=[{"key": key, "number": 0, "reply": reply}],
        result=[{"item": key, "target": "response", "method": method, "seconds": value}],
        **more,
    )


def test_the_earliest_row_counts():
    merged = merge_rows([part("[1]", "ifr", 1.0), part("[1]", "ifr", 2.0), part("[1]", "vtrace", 3.0)])
    assert [(row["method"], row["seconds"]) for row in merged.result] == [("ifr", 1.0), ("vtrace", 3.0)]
    assert len(merged.item) == 1


def test_measurements_on_another_response_do_not_count():
    merged = merge_rows([part("[1]", "ifr", 1.0), part("[2]", "vtrace", 2.0), part("[1]", "random", 3.0)])
    assert [row["method"] for row in merged.result] == ["ifr", "random"]


def test_what_one_file_measured_no_other_calls_failed_or_left_out():
    failed = [{"item": "a", "target": "response", "method": m, "reason": "no"} for m in ("ifr", "loo")]
    left_out = [{"item": key, "reason": "no"} for key in "cba"]
    merged = merge_rows([RunRows(failure=failed, left_out=left_out), part("[1]", "ifr", 1.0)])
    assert [row["method"] for row in merged.failure] == ["loo"]
    assert [row["item"] for row in merged.left_out] == ["b", "c"]


def test_merged_shards_are_the_whole_and_go_on(pinhole, run_folder, tmp_path, run):
    shapes, shards, whole = find_benchmark("shapes-dev"), tmp_path / "shards", tmp_path / "whole"
    evaluate(pinhole, shapes, PLAN, shards, limit=3, shard=Shard(1, 2))
    code, _, err = run("merge", shards, "--out", whole)
    assert (code, err) == (0, f"wrote {whole}/run.sqlite\nwrote {whole}/traces.sqlite\n")
    assert [row["key"] for row in read_run(whole).rows.item] == ["dev-00000", "dev-00002"]
    assert len(read_traces(whole).responses) == 2
    evaluate(pinhole, shapes, PLAN, whole, limit=3)
    tables = [as_json(tabulate(read_run(place))) for place in (whole, run_folder)]
    assert tables[0] == tables[1]
    code, _, err = run("merge", shards / "run-1-of-2.sqlite", "--out", whole)  # adds nothing
    assert (code, as_json(tabulate(read_run(whole)))) == (0, tables[0])


def test_runs_with_other_settings_are_not_merged(pinhole, run_folder, tmp_path):
    other = dataclasses.replace(PLAN, steps=2, methods=("random",), targets=("answer",))
    evaluate(pinhole, find_benchmark("shapes-dev"), other, tmp_path / "other", limit=1)
    with pytest.raises(InputError, match="other belongs to a different run than"):
        merge_files([run_folder, tmp_path / "other"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_to_merge_is_named(run, tmp_path):
    code, _, err = run("merge", tmp_path, "--out", tmp_path / "out")
    assert (code, "there is no run at" in err) == (2, True)
