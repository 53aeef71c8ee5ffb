"""Evaluations: measured right, resumable, and clear about what went wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import ImageFilter

from vtrace.attribution import encode_trace
from vtrace.benchmarks import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.curves import curve_of, groups_of, mass_of, ranked, states_of
from vtrace.faithfulness.measure import Measure
from vtrace.faithfulness.run import Plan, evaluate
from vtrace.faithfulness.statistics import summarise
from vtrace.faithfulness.store import Store, read_run
from vtrace.faithfulness.tables import FORMATS, export_parquet, latex, markdown, published, tabulate
from vtrace.perturb import Perturbation
from vtrace.types import Example

PLAN = Plan(("random", "attention"), ("response", "answer"), steps=3)


@pytest.fixture(scope="module")
def run_folder(pinhole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, folder, limit=3)
    return folder


def rows(path):
    with sqlite3.connect(path) as db:
        return sorted(db.execute("SELECT item, target, method, setting, mode, rise, mas, response FROM curve"))


def test_likelihoods_equal_one_plain_pass_over_a_picture_composed_in_pixels(pinhole, trace):
    image = trace.positions("image")
    state = frozenset(image[3:9])
    found = Measure(pinhole, trace, 0.1).likelihoods([state])[0]
    picture = trace.images[0]
    soft = picture.filter(ImageFilter.GaussianBlur(0.1 * max(picture.size)))
    mixed = picture.copy()
    for patch in trace.patches:
        if patch.position in state:
            box = tuple(round(v) for v in patch.box)
            mixed.paste(soft.crop(box), box)
    arguments = encode_trace(pinhole, dataclasses.replace(trace, images=(mixed,)))
    logs = pinhole.seam.log_probabilities(arguments, torch.tensor(trace.ids), trace.prompt_length)
    assert found == pytest.approx(logs.mean().exp().item(), rel=2e-3)


def test_the_ends_are_the_clean_and_the_fully_perturbed_likelihood(pinhole, trace, attribution):
    measure = Measure(pinhole, trace)
    curves = measure.curves([attribution.scores], ("joint",), steps=2)[0]
    clean, perturbed = measure.likelihoods([frozenset(), frozenset(measure.deletable("joint"))])
    logs = pinhole.seam.log_probabilities(encode_trace(pinhole, trace), torch.tensor(trace.ids), trace.prompt_length)
    assert clean == pytest.approx(logs.mean().exp().item(), rel=1e-5)
    assert perturbed < clean
    assert curves["joint", "deletion"].response[0] == curves["joint", "insertion"].response[-1] == 1
    assert curves["joint", "deletion"].response[-1] == curves["joint", "insertion"].response[0] == 0


def test_curves_that_are_followed_no_further_than_needed_equal_those_of_every_step(pinhole, trace, attribution):
    rankings = [attribution.scores, np.random.default_rng(0).random(len(trace))]
    measure, whole = Measure(pinhole, trace), Measure(pinhole, trace)
    for scores, found in zip(rankings, measure.curves(rankings), strict=True):
        for (setting, mode), curve in found.items():
            groups = groups_of(ranked(scores, whole.deletable(setting)))
            expected = curve_of(whole.likelihoods(states_of(groups, mode)), mass_of(scores, groups), mode)
            np.testing.assert_allclose(curve.response, expected.response, atol=1e-5)
            assert (curve.rise, curve.mas) == pytest.approx((expected.rise, expected.mas), abs=1e-5)
    assert len(measure._known) < 0.9 * len(whole._known)


def test_states_in_batches_equal_one_at_a_time_and_are_computed_once(pinhole, trace, monkeypatch):
    image, text = trace.positions("image"), trace.positions("question")
    states = states_of([image[:5] + text[:2], image[5:9], text[2:6]], "insertion")
    together = Measure(pinhole, trace).likelihoods(states)
    monkeypatch.setattr("vtrace.perturb.BATCH_TOKENS", 1)
    measure = Measure(pinhole, trace)
    assert measure.likelihoods(states) == pytest.approx(together, rel=1e-5)

    def fail(*args):
        raise AssertionError("asked again for what is known")

    monkeypatch.setattr(Perturbation, "log_probabilities", fail)
    assert measure.likelihoods(states[::-1]) == pytest.approx(together[::-1], rel=1e-5)


def test_every_method_target_setting_and_direction_is_in_the_run(run_folder):
    run = read_run(run_folder)
    assert len(run.rows["item"]) == 3
    assert len(run.rows["curve"]) == 3 * 2 * 2 * 2 * 2
    assert {row["metric"] for row in run.rows["evidence"]} >= {"energy", "pointing", "auc", "recall_10"}
    assert all(row["seconds"] >= 0 for row in run.rows["result"])
    assert {row["correct"] for row in run.rows["item"]} <= {0, 1}
    assert run.rows["failure"] == []


def test_a_second_run_measures_nothing_again_and_more_methods_can_join(pinhole, run_folder, tmp_path, monkeypatch):
    before = rows(run_folder / "run.sqlite")
    calls = []
    original = Measure.curves
    monkeypatch.setattr(Measure, "curves", lambda self, *a, **k: calls.append(1) or original(self, *a, **k))
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, run_folder, limit=3)
    assert not calls
    assert rows(run_folder / "run.sqlite") == before
    shutil.copy(run_folder / "run.sqlite", tmp_path)
    more = dataclasses.replace(PLAN, methods=("centre", *PLAN.methods))
    evaluate(pinhole, find_benchmark("shapes-dev"), more, tmp_path, limit=1)
    joined = rows(tmp_path / "run.sqlite")
    assert set(before) < set(joined)
    assert len(joined) == len(before) + 8  # targets, settings, directions


def test_a_run_killed_at_any_moment_completes_to_the_same_rows(run_folder, tmp_path):
    command = [
        sys.executable, "-m", "vtrace.cli", "evaluate", "--benchmark", "shapes-dev", "--methods", "random,attention",
        "--target", "response,answer", "--steps", "3", "--limit", "3", "--out", tmp_path,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = tmp_path / "run.sqlite"
    for _ in range(600):  # until the first item is there
        time.sleep(0.1)
        if path.exists() and path.with_name("run.sqlite-wal").exists():
            try:
                if rows(path):
                    break
            except sqlite3.OperationalError:
                pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(path)
    ours, whole = rows(path), rows(run_folder / "run.sqlite")
    assert [row[:5] for row in ours] == [row[:5] for row in whole]
    np.testing.assert_allclose([row[5:7] for row in ours], [row[5:7] for row in whole], rtol=1e-6)
    assert markdown(tabulate(read_run(tmp_path)), True) == markdown(tabulate(read_run(run_folder)), True)


def test_shards_together_are_the_whole(pinhole, run_folder, tmp_path):
    for number in (1, 2):
        evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=3, shard=(number, 2))
    assert markdown(tabulate(read_run(tmp_path))) == markdown(tabulate(read_run(run_folder)))


def test_a_run_that_was_cut_into_shards_twice_is_refused(run_folder, tmp_path):
    shutil.copy(run_folder / "run.sqlite", tmp_path / "run.sqlite")
    shutil.copy(run_folder / "run.sqlite", tmp_path / "run-1-of-2.sqlite")
    with pytest.raises(InputError, match=r"has dev-00000 in two of its files, .*; move one elsewhere"):
        read_run(tmp_path)


def test_other_settings_in_the_same_folder_are_refused(pinhole, run_folder):
    other = dataclasses.replace(PLAN, steps=4)
    with pytest.raises(InputError, match=r"was made with steps 3, not 4; choose another --out"):
        evaluate(pinhole, find_benchmark("shapes-dev"), other, run_folder, limit=3)


def test_two_processes_on_one_run_are_refused(tmp_path):
    with (
        Store(tmp_path / "run.sqlite", {"seed": 0}),
        pytest.raises(InputError, match="another process is writing"),
    ):
        Store(tmp_path / "run.sqlite", {"seed": 0})


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / "run.sqlite").write_bytes(b"this is no database, it only looks like a file of some length" * 20)
    with pytest.raises(InputError, match=r"run\.sqlite is damaged .* move it away and run again"):
        Store(tmp_path / "run.sqlite", {})
    with pytest.raises(InputError, match="is damaged"):
        read_run(tmp_path)


def test_a_database_that_is_damaged_inside_is_named(run_folder, tmp_path):
    data = (run_folder / "run.sqlite").read_bytes()
    settings = read_run(run_folder).settings
    (tmp_path / "run.sqlite").write_bytes(data[:16384] + b"\xff" * (len(data) - 16384))
    with Store(tmp_path / "run.sqlite", settings) as store:
        for read in (store.done, store.frozen):
            with pytest.raises(InputError, match="damaged"):
                read("dev-00001")


def test_a_run_that_was_killed_while_it_was_made_begins_again(tmp_path):
    with pytest.raises(TypeError):
        Store(tmp_path / "run.sqlite", {"cannot be written": object()})
    with Store(tmp_path / "run.sqlite", {"seed": 0}):
        pass
    assert read_run(tmp_path).settings == {"seed": 0}


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"cannot write .*run\.sqlite: .*; choose another --out"):
        Store(tmp_path / "file" / "run.sqlite", {})


def test_an_item_for_which_memory_does_not_suffice_is_left_out(pinhole, tmp_path, monkeypatch):
    original = Measure.curves
    attempts = []

    def curves(self, *args, **kwargs):
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 TB")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Measure, "curves", curves)
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=2)
    run = read_run(tmp_path)
    assert [row["reason"] for row in run.rows["left_out"]] == [
        "the perturbation: out of memory; use a shorter response or a smaller picture"
    ]
    assert [row["key"] for row in run.rows["item"]] == ["dev-00001"]


def test_methods_hide_pictures_as_the_measure_does(pinhole, tmp_path):
    plan = dataclasses.replace(PLAN, methods=("loo",), targets=("answer",), blur=0.125)
    evaluate(pinhole, find_benchmark("shapes-dev"), plan, tmp_path, limit=1)
    (row,) = read_run(tmp_path).rows["result"]
    assert json.loads(row["options"])["radius"] == 0.125


def test_single_names_can_be_calibrated(pinhole, tmp_path):
    plan = Plan(("ifr", "scaled"), steps=2, variants={"scaled": "ifr"}, calibrated=("scaled",))
    evaluate(pinhole, find_benchmark("shapes-dev"), plan, tmp_path, limit=1)
    shares = {row["method"]: row["image_share"] for row in read_run(tmp_path).rows["result"]}
    assert shares["ifr"] != pytest.approx(shares["scaled"])


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path / "run.sqlite", {"seed": 0})
    with store:
        store._db.execute("PRAGMA max_page_count = 20")
        from vtrace.faithfulness.store import Rows

        big = [{"item": f"{k}", "target": "t", "method": "m", "reason": "x" * 5000} for k in range(200)]
        with pytest.raises(InputError, match="the disk is full"):
            store.save(Rows(failure=big))
    assert read_run(tmp_path).rows["failure"] == []


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
    no_picture, too_long = (row["reason"] for row in run.rows["left_out"])
    assert "there is no picture" in no_picture
    assert "more than the model's context" in too_long
    (failure,) = run.rows["failure"]
    assert "no 'Final answer:' line" in failure["reason"]
    with pytest.raises(InputError, match="the run has no results: there is no picture"):
        tabulate(read_run(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ("sentence 2",)}, "cannot be evaluated"),
        ({"methods": ("nope",)}, "unknown method"),
        ({"options": {"ifr": {"aggregate": "span"}}}, "not among the methods"),
        ({"options": {"random": {"colour": 1}}}, "has no option"),
        ({"blur": 0.0}, "a blur of radius 0 hides nothing"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_before_anything_runs(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(PLAN, **change).check()


def test_tables_come_in_four_formats(run_folder):
    table = tabulate(read_run(run_folder), subsets=("all", "correct"))
    text = {name: render(table) for name, render in FORMATS.items()}
    assert "| response | 3 | image | RISE ins ↑ |" in text["markdown"]
    assert text["markdown"].count("**") == 2 * len(table.lines)
    assert r"\begin{tabular}{lrllrr}" in text["latex"]
    assert text["csv"].splitlines()[0].startswith("target,subset,setting,metric")
    assert len(text["csv"].splitlines()) == 1 + 2 * len(table.lines)
    assert len(json.loads(text["json"])["lines"]) == len(table.lines)


def test_raw_rows_are_exported_as_parquet(run_folder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_parquet(read_run(run_folder), tmp_path / "rows.parquet")
    loaded = parquet.read_table(tmp_path / "rows.parquet")
    assert loaded.num_rows == 48
    assert {"model", "method", "rise", "correct"} <= set(loaded.column_names)


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
    for curve in known.rows["curve"]:
        curve["method"] = {"attention": "ifr"}.get(curve["method"], curve["method"])
    for row in known.rows["result"]:
        row["method"] = {"attention": "ifr"}.get(row["method"], row["method"])
    table = tabulate(known, against="random", evidence=False)
    for render in (markdown, latex):
        text = render(table, intervals=True, reference="random")
        assert re.search(r"\([+-]0\.\d{3} \[[+-]0\.\d{3}(–|--)[+-]0\.\d{3}\]; \d/\d/\d\)", text)
        assert "(paper: 0." in text
        assert "difference to random on the same items; wins/ties/losses" in text


def test_differences_are_paired_and_wins_counted():
    rng = np.random.default_rng(1)
    hard = rng.random(200)  # items differ far more than methods do
    found = summarise({"a": hard, "b": hard + 0.01}, "a", higher_is_better=True)
    assert (found["b"].wins, found["b"].ties, found["b"].losses) == (200, 0, 0)
    assert found["b"].difference_low == pytest.approx(0.01)
    assert found["a"].high - found["a"].low > 0.05
    assert summarise({"a": hard, "b": hard + 0.01}, "a", higher_is_better=False)["b"].losses == 200


def test_perturbing_leaves_the_model_as_it_was(pinhole, trace):
    embed = pinhole.model.model.visual.patch_embed
    before = pinhole.model.model.rope_deltas
    threads = torch.get_num_threads()
    image = trace.positions("image")
    Measure(pinhole, trace).likelihoods([frozenset(image[:k]) for k in range(len(image))])
    assert "forward" not in embed.__dict__
    assert pinhole.model.model.rope_deltas is before
    assert torch.get_num_threads() == threads
