"""Evaluations on local workers: the same table, whoever dies."""

from __future__ import annotations

import signal
import subprocess

import pytest

from support.evaluating import PLAN
from support.evaluation_workers import (
    ITEMS,
    OTHER_WEIGHTS,
    evaluation,
    lives,
    opened,
    recipe_of,
    stopped,
    table_of,
    without_weights,
)
from support.random_kills import RandomKills
from support.waiting import wait_until
from vtrace.benchmarks.benchmark import Benchmark
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.item import ChangedExampleError
from vtrace.faithfulness.rows import LeftOutRow, RunRows, TraceRows
from vtrace.faithfulness.run import evaluate, evaluate_on
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.worker import BatchToFreeze, ChangedExample, WorkerGreeting, catalogue_of
from vtrace.scheduling.local_pool import LocalPool
from vtrace.scheduling.tasks import Died, Finished, Raised, Ready, WorkerRecipe


@pytest.fixture(scope="module")
def whole(pinhole, tmp_path_factory):
    """The folder of a run in one process."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, folder, limit=ITEMS)
    return folder


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_has_the_table_of_one_process(whole, tmp_path):
    kill = RandomKills(3, every=2)
    with opened(LocalPool(recipe_of(), 2), 2, notice=kill.notice) as engine:
        evaluate_on(
            engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=ITEMS, progress=lambda *_: kill.sometimes()
        )
    assert kill.left == 0
    assert table_of(tmp_path) == table_of(whole)


@pytest.mark.slow
def test_a_driver_that_is_stopped_or_killed_goes_on_with_other_numbers_of_workers(whole, tmp_path):
    code, workers, said = stopped(evaluation(tmp_path, "--workers", "2"), 1, signal.SIGINT)
    assert (code, len(workers)) == (130, 2)
    assert "finishing what is running; press Ctrl-C again to stop now" in said
    assert "Traceback" not in said
    first = len(read_run(tmp_path).rows.item)
    assert 1 <= first < ITEMS
    code, workers, _ = stopped(evaluation(tmp_path, "--workers", "3"), first + 1, signal.SIGKILL)
    assert code == -signal.SIGKILL
    wait_until(lambda: not any(map(lives, workers)), "the end of workers without a driver")
    assert len(read_run(tmp_path).rows.item) > first
    done = subprocess.run(evaluation(tmp_path, "--workers", "1"), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "run.sqlite")
    assert table_of(tmp_path) == table_of(whole)


@pytest.mark.slow
def test_a_worker_with_other_weights_is_refused_in_one_line_and_the_others_go_on(whole, tmp_path):
    recipe = recipe_of()
    arguments = {"marker": str(tmp_path / "ready"), **recipe.arguments}
    pool = LocalPool(
        WorkerRecipe("support.evaluation_workers:other_weights", arguments), 2, [{}, {OTHER_WEIGHTS: "yes"}]
    )
    said = []
    with opened(pool, 2, notice=lambda *about: said.append(about)) as engine:
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=ITEMS)
    ((seat, _, reason),) = [about for about in said if about[1] == "refused"]
    assert seat == 1
    assert "its model has the fingerprint" in reason
    assert "use the same checkpoint everywhere" in reason
    assert table_of(tmp_path) == table_of(whole)


@pytest.mark.slow
def test_pictures_travel_to_a_worker_that_cannot_read_them(pinhole, tmp_path):
    real = find_benchmark("shapes-dev")
    mine = Benchmark("mine", 2, lambda n: f"mine-{n}", real.example, real.blur)
    evaluate(pinhole, mine, PLAN, tmp_path / "here")
    pool = LocalPool(recipe_of(mine, source=tmp_path / "nowhere.jsonl"), 1)
    with opened(pool, 1, mine) as engine:
        assert engine.model.catalogue == ""
        evaluate_on(engine, mine, PLAN, tmp_path / "there")
    assert table_of(tmp_path / "there") == table_of(tmp_path / "here")


@pytest.mark.slow
def test_a_model_that_no_worker_can_load_is_one_line(tmp_path):
    folder = without_weights(tmp_path / "model")
    command = evaluation(tmp_path, "--workers", "2", "--model", str(folder))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"vtrace: no worker can start: cannot load {folder}: ")
    assert not list(tmp_path.glob("*.sqlite"))


class FakePool:
    """A fake: workers without a model. A test says what becomes of a payload."""

    def __init__(self, answer):
        self.answer = answer
        self.events = []

    def start(self, seat):
        shapes = find_benchmark("shapes-dev")
        greeting = WorkerGreeting("pinhole", "1234", "float32", False, catalogue_of(shapes))
        self.events.append(Ready(seat, greeting, "here", 1))

    def submit(self, seat, payload):
        self.events.append(self.answer(seat, payload))

    def stop(self, seat): ...

    def wait(self, seconds):
        return [self.events.pop(0)] if self.events else []

    def close(self): ...


def response(number: int) -> dict:
    return {
        "key": f"dev-{number:05d}",
        "number": number,
        "asked": "?",
        "reply": "[1, 2]",
        "finish": "stop",
        "text": "yes",
        "source": "generated",
        "round_trips": None,
    }


def left_out(number: int, reason: str) -> RunRows:
    return RunRows(left_out=[LeftOutRow(item=f"dev-{number:05d}", reason=reason)])


def test_a_batch_that_fails_is_asked_one_by_one(tmp_path):
    """One example is the reason. It is left out, and the others are measured."""

    def answer(seat, payload):
        if not isinstance(payload, BatchToFreeze):
            return Finished(seat, left_out(payload.item.number, "measured"))
        if 2 in payload.numbers:
            return Raised(seat, "ValueError: too large")
        return Finished(seat, TraceRows(response=[response(number) for number in payload.numbers]))

    with opened(FakePool(answer), 2) as engine:
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=8)
    reasons = {row["item"]: row["reason"] for row in read_run(tmp_path).rows.left_out}
    assert reasons.pop("dev-00002") == "ValueError: too large"
    assert list(reasons.values()) == ["measured"] * 7


def test_an_item_that_kills_three_workers_is_left_out_with_the_reason(tmp_path):
    def answer(seat, payload):
        if isinstance(payload, BatchToFreeze):
            return Finished(seat, TraceRows(response=[response(number) for number in payload.numbers]))
        if payload.item.number == 3:
            return Died(seat, "killed by SIGSEGV")
        return Finished(seat, left_out(payload.item.number, "measured"))

    with opened(FakePool(answer), 2) as engine:
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=5)
    reasons = [row["reason"] for row in read_run(tmp_path).rows.left_out]
    assert reasons == [*["measured"] * 3, "3 workers died of it: killed by SIGSEGV", "measured"]


def test_an_example_that_has_changed_ends_the_run(tmp_path):
    def answer(seat, payload):
        if isinstance(payload, BatchToFreeze):
            return Finished(seat, TraceRows(response=[response(number) for number in payload.numbers]))
        return Finished(seat, ChangedExample("dev-00000 has a different picture"))

    with opened(FakePool(answer), 1) as engine, pytest.raises(ChangedExampleError, match="has a different picture"):
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=2)


def test_workers_with_other_weights_than_the_run_are_refused(run_folder, tmp_path):
    before = (run_folder / "run.sqlite").read_bytes()
    with (
        opened(FakePool(None), 1) as engine,
        pytest.raises(InputError, match=r"was made with revision '.*', not '1234'"),
    ):
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, run_folder, limit=3)
    assert (run_folder / "run.sqlite").read_bytes() == before


def many_answers(seat, payload):
    if isinstance(payload, BatchToFreeze):
        return Finished(seat, TraceRows(response=[response(number) for number in payload.numbers]))
    return Finished(seat, left_out(payload.item.number, "measured " + "x" * 3000))


def test_a_disk_that_fills_up_is_one_line_and_finished_items_stay(small_disk):
    with (
        opened(FakePool(many_answers), 1) as engine,
        pytest.raises(InputError, match=r"the disk is full; .* keeps"),
    ):
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, small_disk, limit=800)
    assert 0 < len(read_run(small_disk).rows.left_out) < 800


def test_a_disk_that_is_read_only_is_one_line(small_disk):
    with opened(FakePool(many_answers), 1) as engine:
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, small_disk, limit=2)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with opened(FakePool(many_answers), 1) as engine, pytest.raises(InputError, match=r"cannot write .*Read-only"):
        evaluate_on(engine, find_benchmark("shapes-dev"), PLAN, small_disk, limit=4)
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert len(read_run(small_disk).rows.left_out) == 2
