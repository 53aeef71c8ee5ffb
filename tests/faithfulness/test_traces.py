"""Two phases: responses are frozen first, once, and measured afterwards, from any folder that has them."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import pytest

from support.evaluating import PLAN
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.freeze import freeze_batch, freeze_responses
from vtrace.faithfulness.item import ChangedExampleError
from vtrace.faithfulness.plan import ResponsePlan
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.rows import RunRows, TraceRows
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import Shard, read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.faithfulness.traces import TraceStore, read_traces
from vtrace.types import Example

SHAPES = find_benchmark("shapes-dev")
ASKED = ResponsePlan()


@pytest.fixture(scope="module")
def traces(pinhole, tmp_path_factory):
    """The responses to three examples."""
    folder = tmp_path_factory.mktemp("traces")
    freeze_responses(pinhole, SHAPES, ASKED, folder, range(3))
    return folder


def responses(folder):
    with sqlite3.connect(folder / "traces.sqlite") as db:
        return db.execute("SELECT * FROM response ORDER BY key").fetchall()


def test_the_two_phases_give_the_table_of_one_go(pinhole, traces, run_folder, tmp_path):
    evaluate(pinhole, SHAPES, PLAN, tmp_path, traces=traces)
    assert markdown(tabulate(read_run(tmp_path)), True) == markdown(tabulate(read_run(run_folder)), True)
    assert not list(tmp_path.glob("traces*"))
    assert responses(run_folder) == responses(traces)


def test_a_response_is_stored_with_its_tokens_and_its_text(pinhole, traces):
    key, number, asked, reply, finish, text, source, round_trips = responses(traces)[0]
    assert (key, number, finish, source, round_trips) == ("dev-00000", 0, "stop", "generated", None)
    assert pinhole.processor.tokenizer.decode(json.loads(reply)[:-1]) == text
    assert "Final answer:" in text
    assert len(asked) == 16


def of_one_sentence(number):
    return dataclasses.replace(SHAPES.example(number), one_sentence=True)


def test_where_one_sentence_is_asked_for_the_response_is_the_first_sentence(pinhole, traces):
    (row,) = freeze_batch(pinhole, dataclasses.replace(SHAPES, example=of_one_sentence), ASKED, [0]).response
    _, _, asked, reply, _, text, *_ = responses(traces)[0]
    assert text.startswith(row["text"])
    assert row["text"].count(".") == 1
    assert row["finish"] == "stop"
    assert json.loads(row["reply"]) == json.loads(reply)[: len(json.loads(row["reply"]))]
    assert row["asked"] != asked, "a folder with whole responses would have been taken for one with first sentences"


def test_nothing_is_asked_twice(pinhole, traces, monkeypatch):
    before = responses(traces)

    def refuse(*args, **kwargs):
        raise AssertionError("asked again")

    monkeypatch.setattr("vtrace.faithfulness.freeze.freeze_batch", refuse)
    freeze_responses(pinhole, SHAPES, ASKED, traces, range(3), shard=Shard(1, 2))  # also not by another shard
    assert responses(traces) == before
    (traces / "traces-1-of-2.sqlite").unlink()


def test_a_run_that_was_stopped_after_the_first_phase_asks_nothing_again(pinhole, tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("vtrace.faithfulness.engine.evaluate_item", stop)
        with pytest.raises(KeyboardInterrupt):
            evaluate(pinhole, SHAPES, PLAN, tmp_path, limit=2)
    assert read_run(tmp_path).rows == RunRows()
    assert len(responses(tmp_path)) == 2
    monkeypatch.setattr("vtrace.faithfulness.freeze.freeze_batch", stop)
    evaluate(pinhole, SHAPES, PLAN, tmp_path, limit=2)
    assert len(read_run(tmp_path).rows.item) == 2


def test_shards_write_files_of_their_own_which_are_read_together(pinhole, traces, tmp_path):
    for number in (1, 2):
        freeze_responses(pinhole, SHAPES, ASKED, tmp_path, range(3)[number - 1 :: 2], shard=Shard(number, 2))
    assert sorted(path.name for path in tmp_path.glob("*.sqlite")) == ["traces-1-of-2.sqlite", "traces-2-of-2.sqlite"]
    assert read_traces(tmp_path).responses == read_traces(traces).responses


def test_only_items_that_were_asked_are_measured_and_reasons_are_kept(pinhole, tmp_path):
    broken = dataclasses.replace(SHAPES, example=lambda n: SHAPES.example(n) if n else Example((), "What?", "none"))
    freeze_responses(pinhole, broken, ASKED, tmp_path / "traces", [0, 2])
    evaluate(pinhole, broken, PLAN, tmp_path / "run", traces=tmp_path / "traces")
    run = read_run(tmp_path / "run")
    assert [row["key"] for row in run.rows.item] == ["dev-00002"]
    assert [(row["item"], "no picture" in row["reason"]) for row in run.rows.left_out] == [("dev-00000", True)]


def test_an_item_that_was_left_out_is_asked_again(pinhole, tmp_path):
    broken = dataclasses.replace(SHAPES, example=lambda n: Example((), "What?", "none"))
    freeze_responses(pinhole, broken, ASKED, tmp_path, [0])
    assert read_traces(tmp_path).left_out.keys() == {"dev-00000"}
    freeze_responses(pinhole, SHAPES, ASKED, tmp_path, [0])
    found = read_traces(tmp_path)
    assert (found.responses.keys(), found.left_out) == ({"dev-00000"}, {})


def test_a_supplied_response_is_kept_and_said_to_round_trip(pinhole):
    given = dataclasses.replace(SHAPES.example(0), response="It is red.\nFinal answer: red")
    (row,) = freeze_batch(pinhole, dataclasses.replace(SHAPES, example=lambda n: given), ASKED, [0]).response
    assert (row["source"], row["finish"], row["round_trips"], row["text"]) == (
        "supplied",
        "supplied",
        1,
        given.response,
    )


def test_a_changed_example_is_refused(pinhole, traces, tmp_path):
    changed = dataclasses.replace(SHAPES, example=lambda n: dataclasses.replace(SHAPES.example(n), answer="42"))
    with pytest.raises(ChangedExampleError, match="than when its response was frozen"):
        evaluate(pinhole, changed, PLAN, tmp_path, traces=traces)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "random"}, "belong to the model revision 'weights .*', not 'weights .*'; choose other --traces"),
        ({"benchmark": "shapes"}, "belong to the benchmark 'shapes-dev', not 'shapes'"),
        ({"system": "Be brief."}, "belong to the system prompt \"Look .*, not 'Be brief.'"),
    ],
)
def test_responses_that_do_not_belong_to_the_run_are_refused(pinhole, random_lvlm, traces, tmp_path, change, message):
    lvlm = random_lvlm if "model" in change else pinhole
    plan = dataclasses.replace(PLAN, system=change.get("system", PLAN.system))
    with pytest.raises(InputError, match=message):
        evaluate(lvlm, find_benchmark(change.get("benchmark", "shapes-dev")), plan, tmp_path, traces=traces)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_responses_is_named(pinhole, traces, tmp_path):
    with pytest.raises(InputError, match=r"there are no responses in .*; freeze some with: vtrace trace --out"):
        evaluate(pinhole, SHAPES, PLAN, tmp_path / "run", traces=tmp_path)
    with pytest.raises(InputError, match="has no response to any of these 1 examples of shapes-dev"):
        evaluate(pinhole, SHAPES, PLAN, tmp_path / "run", only=[7], traces=traces)


def test_responses_asked_differently_do_not_share_a_folder(pinhole, traces):
    with pytest.raises(InputError, match=r"was made with max_new_tokens 2048, not 9; choose another --out"):
        freeze_responses(pinhole, SHAPES, ResponsePlan(max_new_tokens=9), traces, range(3))


def test_a_full_disk_loses_no_response(pinhole, traces, tmp_path):
    with TraceStore(tmp_path / "traces.sqlite", read_traces(traces).settings) as store:
        (rows,) = [freeze_batch(pinhole, SHAPES, ASKED, [0])]
        store.save(rows)
        store._database.connection.execute("PRAGMA max_page_count = 20")
        (row,) = rows.response
        with pytest.raises(InputError, match=r"the disk is full; .* keeps all finished items"):
            store.save(TraceRows([{**row, "key": f"{k}", "text": "x" * 5000} for k in range(200)]))
    assert read_traces(tmp_path).responses.keys() == {"dev-00000"}
