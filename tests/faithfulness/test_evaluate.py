"""Evaluations: measured right, resumable, and clear about what went wrong."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import vtrace
from support.evaluating import PLAN
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.evidence import captured_dependence
from vtrace.faithfulness.likelihoods import ResponseLikelihoods
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.rows import RunRows
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import RunStore, Shard, read_reasons, read_run, run_files
from vtrace.faithfulness.tables import tabulate
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target
from vtrace.types import Example


def rows(path):
    with sqlite3.connect(path) as db:
        return sorted(db.execute("SELECT item, target, method, setting, mode, rise, mas, response FROM curve"))


def test_every_method_target_setting_and_direction_is_in_the_run(run_folder):
    run = read_run(run_folder)
    assert len(run.rows.item) == 3
    assert len(run.rows.curve) == 3 * 2 * 2 * 2 * 2
    assert {row["metric"] for row in run.rows.evidence} >= {"energy", "pointing", "auc", "recall_10"}
    assert all(row["seconds"] >= 0 for row in run.rows.result)
    assert {row["correct"] for row in run.rows.item} <= {0, 1}
    assert run.rows.failure == []


def test_a_second_run_measures_nothing_again_and_more_methods_can_join(pinhole, run_folder, tmp_path, monkeypatch):
    before = rows(run_folder / "run.sqlite")
    calls = []
    original = ResponseLikelihoods.curves
    monkeypatch.setattr(ResponseLikelihoods, "curves", lambda self, *a, **k: calls.append(1) or original(self, *a, **k))
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, run_folder, limit=3)
    assert not calls
    assert rows(run_folder / "run.sqlite") == before
    shutil.copy(run_folder / "run.sqlite", tmp_path)
    more = dataclasses.replace(PLAN, methods=("centre", *PLAN.methods))
    evaluate(pinhole, find_benchmark("shapes-dev"), more, tmp_path, limit=1)
    joined = rows(tmp_path / "run.sqlite")
    assert set(before) < set(joined)
    assert len(joined) == len(before) + 8  # targets, settings, directions


STOPS_IN_THE_SECOND_ITEM = """
import sys

from vtrace.cli.main import main
from vtrace.faithfulness.likelihoods import ResponseLikelihoods

measured, curves = [], ResponseLikelihoods.curves


def stopping(self, *args, **kwargs):
    measured.append(curves(self, *args, **kwargs))
    if len(measured) == 2:
        print("stopped", flush=True)
        sys.stdin.read()
    return measured[-1]


ResponseLikelihoods.curves = stopping
main()
"""


@pytest.mark.slow
def test_a_run_killed_inside_an_item_completes_to_the_same_rows(run_folder, tmp_path):
    arguments = ["evaluate", "--benchmark", "shapes-dev", "--methods", "random,attention"]
    arguments += ["--target", "response,answer", "--steps", "3", "--limit", "3", "--out", str(tmp_path)]
    path = tmp_path / "run.sqlite"
    killed = [sys.executable, "-c", STOPS_IN_THE_SECOND_ITEM, *arguments]
    with subprocess.Popen(killed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "stopped\n"
        process.kill()
    whole = rows(run_folder / "run.sqlite")
    assert [row[:5] for row in rows(path)] == [row[:5] for row in whole if row[0] == "dev-00000"]
    command = [sys.executable, "-m", "vtrace.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(path)
    ours = rows(path)
    assert [row[:5] for row in ours] == [row[:5] for row in whole]
    np.testing.assert_allclose([row[5:7] for row in ours], [row[5:7] for row in whole], rtol=1e-6)
    assert markdown(tabulate(read_run(tmp_path)), True) == markdown(tabulate(read_run(run_folder)), True)


def test_shards_together_are_the_whole(pinhole, run_folder, tmp_path):
    for number in (1, 2):
        evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=3, shard=Shard(number, 2))
    assert markdown(tabulate(read_run(tmp_path))) == markdown(tabulate(read_run(run_folder)))


def test_a_run_goes_on_with_other_shards_or_none(pinhole, run_folder, tmp_path):
    shapes, measured = find_benchmark("shapes-dev"), []

    def note(done, total, label=""):
        measured.append(label)

    evaluate(pinhole, shapes, PLAN, tmp_path, limit=3, shard=Shard(1, 2))  # items 0 and 2
    evaluate(pinhole, shapes, PLAN, tmp_path, limit=2, shard=Shard(2, 3))  # item 1
    evaluate(pinhole, shapes, PLAN, tmp_path, limit=3, progress=note)
    assert measured == [""]  # there is nothing left
    assert sorted(p.name for p in run_files(tmp_path)) == ["run-1-of-2.sqlite", "run-2-of-3.sqlite", "run.sqlite"]
    assert markdown(tabulate(read_run(tmp_path))) == markdown(tabulate(read_run(run_folder)))


def test_files_of_another_run_in_the_same_folder_are_refused(pinhole, run_folder, tmp_path):
    shutil.copy(run_folder / "run.sqlite", tmp_path / "run-1-of-2.sqlite")
    other = dataclasses.replace(PLAN, steps=4)
    with pytest.raises(InputError, match=r"run-1-of-2\.sqlite was made with steps 3, not 4; choose another --out"):
        evaluate(pinhole, find_benchmark("shapes-dev"), other, tmp_path, limit=3)


def test_a_folder_may_have_any_name(run_folder, tmp_path):
    shutil.copytree(run_folder, odd := tmp_path / "100 % #1?")
    assert rows(odd / "run.sqlite") == rows(run_folder / "run.sqlite")
    assert len(read_run(odd).rows.item) == 3
    assert read_reasons(odd / "run.sqlite", "failure") == {}


def test_other_settings_in_the_same_folder_are_refused(pinhole, run_folder):
    other = dataclasses.replace(PLAN, steps=4)
    with pytest.raises(InputError, match=r"was made with steps 3, not 4; choose another --out"):
        evaluate(pinhole, find_benchmark("shapes-dev"), other, run_folder, limit=3)


def test_two_processes_on_one_run_are_refused(tmp_path):
    with (
        RunStore(tmp_path / "run.sqlite", {"seed": 0}),
        pytest.raises(InputError, match="another process is writing"),
    ):
        RunStore(tmp_path / "run.sqlite", {"seed": 0})


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / "run.sqlite").write_bytes(b"this is no database, it only looks like a file of some length" * 20)
    with pytest.raises(InputError, match=r"run\.sqlite is damaged .* move it away and run again"):
        RunStore(tmp_path / "run.sqlite", {})
    with pytest.raises(InputError, match="is damaged"):
        read_run(tmp_path)


def test_a_database_that_is_damaged_inside_is_named(run_folder, tmp_path):
    data = (run_folder / "run.sqlite").read_bytes()
    settings = read_run(run_folder).settings
    (tmp_path / "run.sqlite").write_bytes(data[:16384] + b"\xff" * (len(data) - 16384))
    with RunStore(tmp_path / "run.sqlite", settings) as store:
        for read in (store.done, store.frozen):
            with pytest.raises(InputError, match="damaged"):
                read("dev-00001")


def test_a_run_that_was_killed_while_it_was_made_begins_again(tmp_path):
    with pytest.raises(TypeError):
        RunStore(tmp_path / "run.sqlite", {"cannot be written": object()})
    with RunStore(tmp_path / "run.sqlite", {"seed": 0}):
        pass
    assert read_run(tmp_path).settings == {"seed": 0, "family": ""}


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"cannot write .*run\.sqlite: .*; choose another --out"):
        RunStore(tmp_path / "file" / "run.sqlite", {})


def test_an_item_for_which_memory_does_not_suffice_is_left_out(pinhole, tmp_path, monkeypatch):
    original = ResponseLikelihoods.curves
    attempts = []

    def curves(self, *args, **kwargs):
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 TB")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(ResponseLikelihoods, "curves", curves)
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=2)
    run = read_run(tmp_path)
    assert [row["reason"] for row in run.rows.left_out] == [
        "the perturbation: out of memory; use a shorter response or a smaller picture"
    ]
    assert [row["key"] for row in run.rows.item] == ["dev-00001"]


@pytest.mark.parametrize(
    ("place", "failures"),
    [
        ("vtrace.tracing.batch.decode_side_by_side", 2),
        ("vtrace.faithfulness.item.run_method", 1),
    ],  # a batch, then alone
)
def test_a_bug_of_ours_on_one_item_is_logged_and_the_run_goes_on(pinhole, tmp_path, monkeypatch, place, failures):
    """Its reason is counted in the table, and its traceback is in the folder of the run."""
    module, name = place.rsplit(".", 1)
    right, calls = getattr(sys.modules[module], name), []

    def wrong(*args, **kwargs):
        calls.append(1)
        if len(calls) <= failures:
            raise TypeError("The size of tensor a (3) must match the size of tensor b (4)")
        return right(*args, **kwargs)

    monkeypatch.setattr(place, wrong)
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=2)
    run = read_run(tmp_path)
    assert [row["key"] for row in run.rows.item] == ["dev-00001"]
    reason = "an error inside VTrace (TypeError: The size of tensor a (3) must match the size of tensor b (4))"
    assert f"Left out 1: {reason}; see errors.log" in markdown(tabulate(run))
    log = (tmp_path / "errors.log").read_text()
    assert "item dev-00000\nTraceback" in log
    assert "in wrong" in log
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=2)  # tries it again
    assert len(read_run(tmp_path).rows.item) == 2
    assert read_run(tmp_path).rows.left_out == []


def test_a_rerun_that_fails_loses_nothing_and_leaves_nothing_out(pinhole, run_folder, tmp_path, monkeypatch):
    shutil.copy(run_folder / "run.sqlite", tmp_path)

    def curves(self, *args, **kwargs):
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(ResponseLikelihoods, "curves", curves)
        more = dataclasses.replace(PLAN, methods=("centre", *PLAN.methods))
        evaluate(pinhole, find_benchmark("shapes-dev"), more, tmp_path, limit=1)
    run = read_run(tmp_path)
    assert run.rows.left_out == []
    assert {(row["item"], row["method"]) for row in run.rows.failure} == {("dev-00000", "centre")}
    assert "Failed 2 times: the perturbation: out of memory" in markdown(tabulate(run))
    evaluate(pinhole, find_benchmark("shapes-dev"), more, tmp_path, limit=1)
    assert read_run(tmp_path).rows.failure == []


def test_progress_begins_with_what_is_there_already(pinhole, run_folder, tmp_path):
    shutil.copy(run_folder / "run.sqlite", tmp_path)
    said = []

    def note(done, total, label=""):
        said.append((done, total, label))

    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=4, progress=note)
    assert said == [(0, 1, "asking"), (1, 1, "asking"), (3, 4, "dev-00003"), (4, 4, "")]


def test_a_response_for_which_memory_does_not_suffice_is_left_out(pinhole, tmp_path, monkeypatch):
    def decode(*args, **kwargs):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr("vtrace.tracing.batch.decode_side_by_side", decode)
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=1)
    (row,) = read_run(tmp_path).rows.left_out
    assert row["reason"] == "the response: out of memory; use a shorter response or a smaller picture"


def test_dependence_is_measured_as_the_drop_of_the_likelihood_of_the_response(pinhole, tmp_path):
    """And what hides pictures from leave-one-out is what hides them from the model afterwards."""
    plan = dataclasses.replace(PLAN, methods=("loo", "random"), targets=("answer",), blur=0.125)
    shapes = find_benchmark("shapes-dev")
    evaluate(pinhole, shapes, plan, tmp_path, limit=1)
    run = read_run(tmp_path)
    options = {row["method"]: json.loads(row["options"]) for row in run.rows.result}
    assert options["loo"]["radius"] == 0.125
    frozen = vtrace.trace(pinhole, shapes.example(0))
    image = frozen.positions("image")
    likelihoods = ResponseLikelihoods(TraceSession.open(pinhole, frozen), 0.125)
    clean, *without = likelihoods.measure([frozenset(), *(frozenset({p}) for p in image)])
    dependence = np.zeros(len(frozen))
    dependence[image] = clean - np.array(without)
    scores = run_method("random", TraceSession.open(pinhole, frozen), find_target(frozen, "answer"), seed=0).scores
    expected = captured_dependence(scores, dependence, image)
    found = {row["method"]: row["value"] for row in run.rows.evidence if row["metric"] == "dependence_20"}
    assert set(found) == {"loo", "random"}
    assert found["random"] == pytest.approx(expected, abs=1e-4)


def test_every_item_has_noise_of_its_own_which_a_seed_repeats(pinhole, run_folder, tmp_path):
    seeds = [json.loads(r["options"])["seed"] for r in read_run(run_folder).rows.result if r["method"] == "random"]
    assert len(set(seeds)) == 3
    evaluate(pinhole, find_benchmark("shapes-dev"), dataclasses.replace(PLAN, seed=5), tmp_path, limit=1)
    (other,) = {json.loads(r["options"]).get("seed") for r in read_run(tmp_path).rows.result} - {None}
    assert other not in seeds


def test_single_names_can_be_calibrated(pinhole, tmp_path):
    plan = EvaluationPlan(("ifr", "scaled"), steps=2, variants={"scaled": "ifr"}, calibrated=("scaled",))
    evaluate(pinhole, find_benchmark("shapes-dev"), plan, tmp_path, limit=1)
    shares = {row["method"]: row["image_share"] for row in read_run(tmp_path).rows.result}
    assert shares["ifr"] != pytest.approx(shares["scaled"])


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    store = RunStore(tmp_path / "run.sqlite", {"seed": 0})
    with store:
        store._database.connection.execute("PRAGMA max_page_count = 20")
        big = [{"item": f"{k}", "target": "t", "method": "m", "reason": "x" * 5000} for k in range(200)]
        with pytest.raises(InputError, match="the disk is full"):
            store.save(RunRows(failure=big))
    assert read_run(tmp_path).rows.failure == []


def test_items_that_cannot_be_measured_are_recorded_with_their_reason(pinhole, tmp_path):
    real = find_benchmark("shapes-dev")

    def example(index):
        asked = real.example(index)
        return [
            asked,
            Example((), asked.question, "no-image", "yes"),
            dataclasses.replace(asked, question="a " * pinhole.context),
        ][index]

    broken = dataclasses.replace(real, size=3, example=example)  # the last two cannot be asked
    plan = dataclasses.replace(PLAN, targets=("answer",), methods=("random",), max_new_tokens=4)  # too few to answer
    evaluate(pinhole, broken, plan, tmp_path)
    run = read_run(tmp_path)
    no_picture, too_long = (row["reason"] for row in run.rows.left_out)
    assert "no picture was given" in no_picture
    assert "more than the model's context" in too_long
    (failure,) = run.rows.failure
    assert "no 'Final answer:' line" in failure["reason"]
    with pytest.raises(InputError, match="the run has no results: no picture was given"):
        tabulate(read_run(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ("sentence 2",)}, "cannot be evaluated"),
        ({"methods": ("nope",)}, "unknown method"),
        ({"options": {"ifr": {"aggregate": "span"}}}, "not among the methods"),
        ({"options": {"random": {"colour": 1}}}, "has no option"),
        ({"blur": 0.0}, "blur radius must be positive and at most 10.0, not 0"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_before_anything_runs(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(PLAN, **change).check()
