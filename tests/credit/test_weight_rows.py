"""Responses from files become rows with weights: nothing is lost between a file, the core and the row."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import vtrace
from support.dataset_files import png
from vtrace.benchmarks.registry import find_benchmark
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.credit.stored_responses import find_responses, model_of
from vtrace.credit.weight_file import check_weight_file, write_weights
from vtrace.credit.weight_rows import CreditReport, WeightRow, credited_rows, weight_row
from vtrace.errors import InputError, ModelError
from vtrace.faithfulness.freeze import freeze_responses
from vtrace.faithfulness.plan import ResponsePlan
from vtrace.faithfulness.traces import read_traces
from vtrace.tracing.generate import trace as ask

REASONED = "The red star is at row 1 column 2.\nFinal answer: red star"


def rows_of(lvlm, places, credit=None, **options) -> tuple[list[WeightRow], CreditReport]:
    report = CreditReport()
    return list(credited_rows(lvlm, find_responses(places), credit or Credit(), report, **options)), report


@pytest.fixture
def table(tmp_path, trace):
    """Rollouts of a user: texts, sampled tokens, and rows that cannot be used."""
    vtrace.example().images[0].save(tmp_path / "a.png")
    (tmp_path / "narrow.png").write_bytes(png(size=(2000, 2)))
    asked = {"image": "a.png", "question": trace.question}
    sampled = list(trace.ids[trace.prompt_length :])
    lines = [
        {**asked, "response": REASONED, "id": "text"},
        {**asked, "response_ids": sampled, "id": "sampled"},
        {**asked, "response_ids": sampled[:-1], "id": "cut"},
        {**asked, "response": "A red star.", "id": "silent"},
        {**asked, "image": "b.png", "response": "?", "id": "lost"},
        {**asked, "id": "unasked"},
        {**asked, "image": "narrow.png", "response": REASONED, "id": "narrow"},
        {**asked, "response_ids": [10**6], "id": "foreign"},
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("\n".join([*map(json.dumps, lines), "{broken"]), "utf-8")
    return path


def test_a_table_gives_one_row_per_usable_response(pinhole, trace, table):
    rows, report = rows_of(pinhole, [table])
    assert [(row["key"], row["status"]) for row in rows] == [
        ("text", "assigned"),
        ("sampled", "assigned"),
        ("cut", "cut off"),
        ("silent", "no answer"),
    ]
    assert rows[1]["response_ids"] == list(trace.ids[trace.prompt_length :])
    assert {tuple(row["prompt_ids"]) for row in rows} == {trace.ids[: trace.prompt_length]}
    assert report.statuses == {"assigned": 2, "cut off": 1, "no answer": 1}
    reasons = {report.first[reason]: reason for reason in report.left_out}
    assert list(reasons) == ["lost", "unasked", "narrow", "foreign", "8"]
    words = ("no picture at", "there is no response", "too thin", "token 1000000", "line 9 of")
    assert all(word in reason for word, reason in zip(words, reasons.values(), strict=True))
    assert len(report.describe()) == 5


def test_rows_are_what_the_core_assigns(pinhole, trace, table):
    credit = Credit("vtrace-ordered", "proportional", boost=2.0)
    (expected,) = credit.assign(pinhole, [from_trace(pinhole, trace)])
    row = rows_of(pinhole, [table], credit)[0][1]
    np.testing.assert_allclose(row["weights"], expected.weights, rtol=1e-4)
    assert [score is None for score in row["scores"]] == np.isnan(expected.scores).tolist()
    assert row["image_share"] == pytest.approx(expected.image_share, rel=1e-4)
    assert (row["source"], row["rule"], row["boost"]) == ("vtrace-ordered", "proportional", 2.0)


def test_texts_of_tokens_are_the_text_of_the_response(pinhole):
    """Also if characters are divided among tokens."""
    text = "naïvely 🙂 → 星.\nFinal answer: 星"
    frozen = ask(pinhole, vtrace.example(), response=text)
    (found,) = Credit("uniform").assign(pinhole, [from_trace(pinhole, frozen)])
    row = weight_row("a", "pinhole", Credit("uniform"), frozen, found)
    assert "".join(row["tokens"]) == text + "<|im_end|>"
    assert len({len(row[name]) for name in ("tokens", "weights", "scores", "response_ids")}) == 1


def test_traces_attributions_and_folders(pinhole, trace, attribution, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    trace_file = vtrace.save(trace, folder / "a.json")
    vtrace.save(attribution, folder / "b.json")
    (folder / "c.json").write_text('{"schema": "vtrace.trace/1"}')
    rows, report = rows_of(pinhole, [folder, trace_file])
    assert [row["key"] for row in rows] == ["a", "b", "a#2"]
    assert rows[0]["weights"] == rows[1]["weights"] == rows[2]["weights"]
    assert [reason.split(":")[0] for reason in report.left_out] == [f"{folder / 'c.json'} is damaged"]
    assert model_of(find_responses([folder / "c.json", folder])) == "pinhole"


def test_a_trace_of_another_model_is_credited_only_if_a_model_was_chosen(pinhole, trace, tmp_path):
    path = vtrace.save(replace(trace, model="pinhole-before"), tmp_path / "a.json")
    assert len(rows_of(pinhole, [path])[0]) == 1
    with pytest.raises(InputError, match="it was made with pinhole-before; choose one model for all with --model"):
        rows_of(pinhole, [path], any_model=False)


def test_places_that_hold_no_responses(trace, tmp_path):
    with pytest.raises(InputError, match="there is no file or folder"):
        find_responses([tmp_path / "nothing"])
    (tmp_path / "a.txt").write_text("?")
    with pytest.raises(InputError, match="neither a trace"):
        find_responses([tmp_path / "a.txt"])
    vtrace.save(trace, tmp_path / "a.json")
    (tmp_path / "a.csv").write_text("image,question\na.png,?\n")
    with pytest.raises(InputError, match=r"has traces and tables \(a.json, a.csv\); give one of them"):
        find_responses([tmp_path])


def test_keys_of_several_tables_name_their_table(table):
    copy = table.with_name("more.jsonl")
    copy.write_text(table.read_text("utf-8"), "utf-8")
    keys = [response.key for response in find_responses([table, copy])]
    assert keys[:2] == ["rollouts/text", "rollouts/sampled"]
    assert "more/text" in keys


def test_if_the_model_fails_on_a_batch_each_response_is_tried_alone(pinhole, table, monkeypatch):
    assign = Credit.assign

    def failing(self, lvlm, rollouts):
        if len(rollouts) > 1 or not rollouts[0].answer:
            raise ModelError("out of memory")
        return assign(self, lvlm, rollouts)

    monkeypatch.setattr(Credit, "assign", failing)
    rows, report = rows_of(pinhole, [table])
    assert [row["key"] for row in rows] == ["text", "sampled", "cut"]
    assert report.left_out["out of memory"] == 1


def test_it_is_an_error_if_nothing_could_be_used_and_no_file_is_left(pinhole, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"image": "a.png", "question": "?", "response": "!"}')
    rows = credited_rows(pinhole, find_responses([tmp_path / "a.jsonl"]), Credit(), CreditReport())
    with pytest.raises(InputError, match="no response could be used: 1 left out, there is no picture at"):
        write_weights(tmp_path / "w.jsonl", rows)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_files_are_strict_and_hold_the_same(pinhole, table, tmp_path):
    rows, _ = rows_of(pinhole, [table])
    jsonl, parquet = (write_weights(tmp_path / f"w{suffix}", rows) for suffix in (".jsonl", ".parquet"))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in jsonl.read_text("utf-8").splitlines()]
    assert lines == rows == pq.read_table(parquet).to_pylist()
    assert lines[2]["scores"] == [None] * len(lines[2]["weights"])
    assert set(lines[2]["weights"]) == {1.0}


def test_a_row_without_numbers_does_not_reach_a_file(pinhole, table, tmp_path):
    rows, _ = rows_of(pinhole, [table])
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_weights(tmp_path / "w.jsonl", [{**rows[0], "image_share": float("nan")}])
    assert not (tmp_path / "w.jsonl").exists()


def test_formats_of_files(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"has to end in .jsonl or .parquet"):
        check_weight_file(tmp_path / "w.csv")
    monkeypatch.setattr("vtrace.credit.parquet_rows.find_spec", lambda name: None)
    with pytest.raises(InputError, match="Parquet files need pyarrow; install it with: pip install pyarrow"):
        check_weight_file(tmp_path / "w.parquet")


def test_responses_that_vtrace_trace_froze_can_be_credited(pinhole, tmp_path):
    freeze_responses(pinhole, find_benchmark("shapes-dev"), ResponsePlan(), tmp_path, [0, 2])
    responses = find_responses([tmp_path])
    assert ([response.key for response in responses], model_of(responses)) == (["dev-00000", "dev-00002"], "pinhole")
    rows = list(credited_rows(pinhole, responses, Credit(), CreditReport()))
    assert [row["status"] for row in rows] == ["assigned", "assigned"]
    assert [row["response_ids"] for row in rows] == [found.ids for found in read_traces(tmp_path).responses.values()]
