"""A file of questions explained: nothing is lost, repeated or hidden, whatever the file contains."""

from __future__ import annotations

import json
import re

import pytest

import vtrace
from support.evaluation_workers import lives
from support.own_questions import BAD, GOOD
from vtrace.benchmarks.registry import find_benchmark
from vtrace.cli.explain_benchmark import describe
from vtrace.errors import InputError
from vtrace.faithfulness.measurement import AnsweredItem
from vtrace.faithfulness.plan import ResponsePlan
from vtrace.faithfulness.rows import LeftOutRow
from vtrace.faithfulness.traces import read_traces
from vtrace.faithfulness.worker import worker_recipe
from vtrace.faithfulness.workers import Workers
from vtrace.scheduling.local_pool import LocalPool
from vtrace.triage.document import triage_document
from vtrace.triage.engine import ExplainHere, ExplainingWorker, ExplainOnWorkers
from vtrace.triage.flags import FLAGS, FOREIGN, NO_ANSWER, OUTSIDE
from vtrace.triage.item import page_name
from vtrace.triage.page import TRIAGE_PAGE
from vtrace.triage.plan import ExplanationPlan
from vtrace.triage.rows import ExplainedItem
from vtrace.triage.run import explain_benchmark, explain_on
from vtrace.triage.store import ExplanationStore, read_explanations


class Watched(ExplainHere):
    """Explains, remembers what it was asked to explain, and is interrupted after so many items."""

    def __init__(self, *arguments, patience: int = 99):
        super().__init__(*arguments)
        self.explained: list[str] = []
        self.patience = patience

    def explain(self, items, begin):
        for item, found in zip(items, super().explain(items, begin), strict=True):
            if len(self.explained) == self.patience:
                raise KeyboardInterrupt
            self.explained.append(item.key)
            yield found


@pytest.fixture(scope="module")
def document(explained):
    return triage_document(explained)


def by_key(document):
    return {item["key"]: item for item in document["items"]}


def test_every_question_has_a_row_and_a_viewer_file_with_the_numbers_of_one_explanation(pinhole, explained, document):
    assert tuple(item["key"] for item in document["items"]) == GOOD
    for item in document["items"]:
        assert item["key"] in json.loads(re.search(r'"heading":("(?:[^"\\]|\\.)*")', page_of(explained, item))[1])
    first = document["items"][0]
    alone = vtrace.attribute(pinhole, vtrace.trace(pinhole, vtrace.example("test-11")))
    assert first["image_share"] == pytest.approx(alone.image_share, abs=1e-6)
    assert first["dependence"] == pytest.approx(alone.visual_dependence().sum(), abs=1e-4)
    assert (first["answer"], first["verdict"], first["correct"]) == (alone.trace.answer_text, "correct", True)


def page_of(folder, item):
    return (folder / item["page"]).read_text("utf-8")


def test_rows_that_cannot_be_used_are_left_out_with_their_reason(explained, document):
    reasons = {row["item"]: row["reason"] for row in document["left_out"]}
    assert reasons.keys() == BAD.keys()
    assert all(re.search(wanted, reasons[key]) for key, wanted in BAD.items())
    shown = (explained / TRIAGE_PAGE).read_text("utf-8")
    assert all(reason.split("/")[0] in shown for reason in reasons.values())


def test_an_item_that_cannot_be_verified_later_stays_explained_and_says_why(pinhole, tmp_path):
    shapes = find_benchmark("shapes-dev")
    explain_benchmark(pinhole, shapes, ExplanationPlan(), tmp_path, limit=1)
    with ExplanationStore(tmp_path, ExplanationPlan().settings(pinhole, shapes)) as store:
        store.save(LeftOutRow(item="dev-00000", reason="out of memory"))
    found = triage_document(tmp_path)
    assert ([item["key"] for item in found["items"]], found["left_out"]) == (["dev-00000"], [])
    assert "not verified dev-00000: out of memory" in list(describe(found))


def test_flags_say_what_to_look_at(document):
    rows = by_key(document)
    assert rows["right place"]["flags"] == []
    assert rows["wrong box"]["flags"] == [OUTSIDE]
    assert rows["wrong box"]["inside"] < 0.1 < rows["right place"]["inside"]
    assert NO_ANSWER in rows["supplied"]["flags"]
    assert FOREIGN in rows[GOOD[3]]["flags"]
    assert set(document["flags"]) == set(FLAGS)


def test_text_from_outside_cannot_become_markup_or_leave_the_folder(explained, document):
    odd = by_key(document)[GOOD[3]]
    assert odd["page"] == "items/00003-b-odd-b-name.html"
    assert "<script>alert" not in (explained / TRIAGE_PAGE).read_text("utf-8")
    assert page_name(7, "../" * 80) == "items/00007.html"
    assert len(page_name(7, "x" * 900)) < 80


def test_nothing_is_explained_twice_except_what_has_lost_its_file(pinhole, tmp_path):
    shapes, plan = find_benchmark("shapes-dev"), ExplanationPlan()
    first = Watched(pinhole, shapes, plan, tmp_path, patience=1)
    with pytest.raises(KeyboardInterrupt):
        explain_on(first, shapes, plan, tmp_path, limit=3)
    assert '"wanted":3' in (tmp_path / TRIAGE_PAGE).read_text("utf-8")  # the page has what there is
    assert [item["key"] for item in triage_document(tmp_path)["items"]] == first.explained == ["dev-00000"]
    again = Watched(pinhole, shapes, plan, tmp_path)
    explain_on(again, shapes, plan, tmp_path, limit=3)
    assert again.explained == ["dev-00001", "dev-00002"]
    (tmp_path / triage_document(tmp_path)["items"][1]["page"]).unlink()
    third = Watched(pinhole, shapes, plan, tmp_path)
    explain_on(third, shapes, plan, tmp_path, limit=3)
    assert third.explained == ["dev-00001"]


def test_other_settings_are_refused_and_the_folder_stays(pinhole, explained):
    before = (explained / TRIAGE_PAGE).read_bytes()
    mine = find_benchmark(str(explained.parent / "mine.jsonl"))
    with pytest.raises(InputError, match="was made with target 'response', not 'answer'; choose another --out"):
        explain_benchmark(pinhole, mine, ExplanationPlan("answer"), explained)
    assert (explained / TRIAGE_PAGE).read_bytes() == before


def test_a_response_without_an_answer_is_explained_whole_and_one_that_was_cut_off_says_so(pinhole, tmp_path):
    shapes = find_benchmark("shapes-dev")
    plan = ExplanationPlan("answer", responses=ResponsePlan(max_new_tokens=4))
    explain_benchmark(pinhole, shapes, plan, tmp_path, limit=1)
    (item,) = triage_document(tmp_path)["items"]
    assert (item["target"], item["answer"]) == ("response", None)
    assert {"cut off", NO_ANSWER} <= set(item["flags"])


def test_frozen_responses_are_explained_and_other_models_refused(pinhole, explained, tmp_path):
    mine = find_benchmark(str(explained.parent / "mine.jsonl"))
    explain_benchmark(pinhole, mine, ExplanationPlan(), tmp_path, limit=1, traces=explained)
    assert read_explanations(tmp_path).rows == read_explanations(explained).rows[:1]
    assert not (tmp_path / "traces.sqlite").exists()
    with pytest.raises(InputError, match=r"belong to the benchmark 'mine', not 'shapes-dev'"):
        explain_benchmark(pinhole, find_benchmark("shapes-dev"), ExplanationPlan(), tmp_path / "b", traces=explained)


@pytest.mark.slow
def test_explanations_can_be_verified_later(pinhole, explained, tmp_path):
    mine = find_benchmark(str(explained.parent / "mine.jsonl"))
    explain_benchmark(pinhole, mine, ExplanationPlan(), tmp_path, limit=1, traces=explained)
    assert triage_document(tmp_path)["items"][0]["verification"] is None
    explain_benchmark(pinhole, mine, ExplanationPlan(passes=30), tmp_path, limit=1, traces=explained)
    (item,) = triage_document(tmp_path)["items"]
    assert item["verification"]["verdict"].startswith("Hiding ")
    assert item["verification"]["inputs"] >= 1
    assert '"verifications":[{' in page_of(tmp_path, item)


@pytest.mark.slow
def test_two_workers_find_what_one_process_does(explained, tmp_path):
    source = explained.parent / "mine.jsonl"
    mine, plan = find_benchmark(str(source)), ExplanationPlan()
    recipe = worker_recipe(ExplainingWorker, "pinhole", "", "", mine, (str(source), None, None), plan=plan)
    pool = LocalPool(recipe, 2)
    seen = []
    try:
        workers = Workers(pool, 2, mine, plan.responses, lambda seat, state, reason: seen.append(reason))
        explain_on(ExplainOnWorkers(workers), mine, plan, tmp_path)
    finally:
        pool.close()
    assert not any(lives(int(reason.split()[1])) for reason in seen)
    here, there = triage_document(explained), triage_document(tmp_path)
    assert there["left_out"] == here["left_out"]
    assert [flagged(item) for item in there["items"]] == [flagged(item) for item in here["items"]]


def flagged(item):
    return item["key"], item["answer"], item["flags"], round(item["image_share"], 4)


class Copies:
    """An engine that answers every item with a copy of one explanation."""

    def __init__(self, pinhole, found):
        self.model, self._found = pinhole, found

    def freeze(self, out, numbers, progress): ...

    def explain(self, items: list[AnsweredItem], begin):
        for item in items:
            row = {**self._found, "key": item.key, "number": item.number, "page": page_name(item.number, item.key)}
            yield ExplainedItem(row, "x" * 200_000)


def test_a_full_disk_is_one_line_and_finished_explanations_stay(pinhole, run_folder, explained, small_disk):
    shapes = find_benchmark("shapes-dev")
    engine = Copies(pinhole, read_explanations(explained).rows[0])
    assert len(read_traces(run_folder).responses) == 3
    plan = ExplanationPlan()
    (small_disk / "ballast").write_bytes(b"x" * 400_000)
    with pytest.raises(InputError, match=r"No space left on device|the disk is full"):
        explain_on(engine, shapes, plan, small_disk / "out", traces=run_folder)
    done = read_explanations(small_disk / "out").rows
    assert 1 <= len(done) < 3
    assert {path.name for path in (small_disk / "out" / "items").iterdir()} == {
        row["page"].split("/")[1] for row in done
    }
    (small_disk / "ballast").unlink()
    explain_on(engine, shapes, plan, small_disk / "out", traces=run_folder)
    assert len(read_explanations(small_disk / "out").rows) == 3
