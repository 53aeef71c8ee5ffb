"""Evaluation runs, example by example, and opened in the viewer."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from support.serving import serving
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.report.documents import from_document


@pytest.fixture(scope="module")
def runs(pinhole, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    plan = EvaluationPlan(methods=("vtrace", "random"), steps=3)
    evaluate(pinhole, find_benchmark("shapes"), plan, place / "first run", limit=3)
    (place / "broken").mkdir()
    (place / "broken" / "run.sqlite").write_text("nothing of the kind")
    return place


@pytest.fixture(scope="module")
def client(pinhole, runs, tmp_path_factory):
    with serving(lambda name: pinhole, tmp_path_factory.mktemp("serve") / "history.sqlite", runs) as client:
        yield client


RUN = "/api/runs/first%20run"


def test_runs_are_listed_with_their_accuracy(client, runs):
    broken, first = client.get("/api/runs")[1]
    assert broken["error"]
    rows = read_run(runs / "first run").rows.item
    assert (first["name"], first["items"], first["graded"]) == ("first run", 3, 3)
    assert first["correct"] == sum(row["correct"] for row in rows)


def test_items_are_paged_and_kept_by_outcome(client):
    whole = client.get(f"{RUN}/items")[1]
    assert [one["number"] for one in whole["items"]] == [0, 1, 2]
    assert client.get(f"{RUN}/items?offset=1&count=1")[1]["items"] == whole["items"][1:2]
    kept = [client.get(f"{RUN}/items?correct={flag}")[1]["total"] for flag in ("true", "false")]
    assert sum(kept) == whole["total"] == 3


def test_an_item_shows_what_was_measured(client, runs):
    key = client.get(f"{RUN}/items")[1]["items"][1]["key"]
    scores = client.get(f"{RUN}/items/{key}")[1]["scores"]
    rows = read_run(runs / "first run", item=key).rows
    assert {row["item"] for row in rows.curve} == {key}
    assert {score["method"] for score in scores} == {"vtrace", "random"}
    for row in rows.curve:
        score = next(score for score in scores if score["method"] == row["method"])
        assert score["curves"][f"{row['setting']} {row['mode']}"] == {"rise": row["rise"], "mas": row["mas"]}
    assert client.send("GET", f"{RUN}/items/{key}/picture")[2].startswith(b"\xff\xd8")


def test_an_item_opens_with_the_very_tokens_of_the_run(client, runs):
    row = read_run(runs / "first run").rows.item[2]
    status, _, body = client.send("POST", f"{RUN}/items/{row['key']}/explanations?methods=vtrace&methods=random")
    assert status == 202
    id = json.loads(body)["id"]
    assert client.wait(id)["status"] == "done"
    trace = from_document(json.loads(client.send("GET", f"/api/explanations/{id}/result")[2])).trace
    assert list(trace.ids[trace.prompt_length :]) == json.loads(row["reply"])
    assert trace.finish == row["finish"]
    assert trace.evidence_boxes


@pytest.mark.parametrize("name", ["..", "../first run", "/etc", "first run/..", "nothing"])
def test_only_names_on_the_list_are_looked_up(client, name):
    assert client.send("GET", f"/api/runs/{quote(name, safe='')}/items")[0] in (404, 422)
    assert client.send("GET", f"{RUN}/items/{quote(name, safe='')}")[0] in (404, 422)


def test_a_broken_run_and_another_model_are_one_line(client, runs, monkeypatch):
    assert client.get("/api/runs/broken/items")[0] == 422
    monkeypatch.setattr(client.service.models, "names", ("another",))
    key = read_run(runs / "first run").rows.item[0]["key"]
    status, _, body = client.send("POST", f"{RUN}/items/{key}/explanations")
    assert status == 422
    assert "--model pinhole" in json.loads(body)["detail"]


def test_runs_are_listed_with_the_scores_of_the_table(client, runs):
    _, first = client.get("/api/runs")[1]
    line = tabulate(read_run(runs / "first run")).line("response", "image", "RISE ins")
    assert first["rises"] == pytest.approx({method: cell.mean for method, cell in line.cells.items()})
