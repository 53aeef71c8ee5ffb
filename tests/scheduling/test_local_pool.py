"""Real processes under the real scheduler."""

from __future__ import annotations

import os

import pytest

from support.light_work import light
from support.random_kills import RandomKills
from vtrace.errors import ModelError
from vtrace.scheduling.local_pool import LocalPool, usable_cores
from vtrace.scheduling.scheduler import Scheduler
from vtrace.scheduling.tasks import Done, Failed, Task, WorkerRecipe


@pytest.fixture
def scheduled():
    """Make schedulers with local workers, which end with the test."""
    pools = []

    def make(recipe=None, workers=2, environments=(), log=lambda line: None, **options) -> Scheduler:
        pools.append(LocalPool(recipe or light(), workers, environments, log))
        return Scheduler(pools[-1], workers, **options)

    yield make
    for pool in pools:
        pool.close()


def squares(count):
    return [Task(str(number), ("square", number)) for number in range(count)]


def test_every_task_is_done_once(scheduled):
    outcomes = list(scheduled().run(squares(30)))
    assert sorted(one.value for one in outcomes) == [number**2 for number in range(30)]


def test_workers_stay_between_runs(scheduled):
    scheduler = scheduled(workers=1)
    (first,) = scheduler.run([Task("a", ("process", None))])
    (second,) = scheduler.run([Task("b", ("process", None))])
    assert first.value == second.value != os.getpid()


def test_an_exception_is_a_value(scheduled):
    tasks = [*squares(3), Task("bad", ("fail", "no such patch")), Task("odd", ("unsendable", None))]
    outcomes = list(scheduled(workers=1).run(tasks))
    failed = {one.task.key: one.reason for one in outcomes if isinstance(one, Failed)}
    assert failed["bad"] == "ValueError: no such patch"
    assert failed["odd"].startswith("the result cannot be sent: ")
    assert sum(isinstance(one, Done) for one in outcomes) == 3


def test_twenty_random_kills_lose_nothing(scheduled):
    kill = RandomKills(20, every=10)
    outcomes = []
    for outcome in scheduled(notice=kill.notice).run([Task(str(k), ("nap", 0.01)) for k in range(250)]):
        outcomes.append(outcome)
        kill.sometimes()
    assert kill.left == 0
    assert all(isinstance(one, Done) for one in outcomes)
    assert sorted(one.task.key for one in outcomes) == sorted(str(k) for k in range(250))


def test_a_task_that_kills_three_workers_has_failed_and_the_rest_is_done(scheduled, tmp_path):
    marker = str(tmp_path / "killed")
    tasks = [*squares(5), Task("poison", ("die", None)), Task("unlucky", ("die_once", marker))]
    outcomes = {one.task.key: one for one in scheduled().run(tasks)}
    assert len(outcomes) == 7
    assert outcomes["poison"].reason == (
        "3 workers died of it: killed by SIGKILL, as the system does when memory runs out"
    )
    assert outcomes["unlucky"].value == "survived"


def test_a_worker_without_memory_is_replaced_and_its_task_tried_again(scheduled):
    reasons = []
    scheduler = scheduled(workers=1, notice=lambda seat, state, reason: reasons.append((state, reason)))
    (outcome, _) = sorted(
        scheduler.run([Task("big", ("forget", "40 GB")), Task("x", ("square", 2))]), key=lambda o: o.task.key
    )
    assert outcome.reason == "3 workers died of it: exit code 1: MemoryError: 40 GB"
    assert [state for state, _ in reasons].count("died") == 3


def test_a_worker_that_refuses_ends_the_run_with_its_reason(scheduled):
    with pytest.raises(ModelError, match=r"^no worker can start: cannot load nowhere: there is no such folder$"):
        list(scheduled(light(refuse="cannot load nowhere: there is no such folder")).run(squares(3)))


def test_a_worker_that_crashes_at_the_start_is_tried_three_times(scheduled):
    seen = []
    scheduler = scheduled(light(crash=True), 1, notice=lambda seat, state, reason: seen.append(state))
    with pytest.raises(ModelError, match=r"^no worker can start: exit code 1: RuntimeError: a bug while starting$"):
        list(scheduler.run(squares(3)))
    assert seen == ["died"] * 3


def test_a_factory_that_does_not_exist_is_named(scheduled):
    with pytest.raises(ModelError, match=r"no worker can start: .*No module named 'nowhere'"):
        list(scheduled(WorkerRecipe("nowhere:nothing"), 1).run(squares(1)))


def test_cores_are_shared_and_each_seat_has_its_environment(scheduled, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    scheduler = scheduled(workers=2, environments=[{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}])
    tasks = [Task(str(k), ("environment", "CUDA_VISIBLE_DEVICES")) for k in range(40)]
    assert {one.value for one in scheduler.run(tasks)} <= {"0", "1"}
    (threads,) = scheduler.run([Task("threads", ("environment", "OMP_NUM_THREADS"))])
    assert threads.value == str(max(1, usable_cores() // 2))


def test_logs_are_prefixed(scheduled):
    lines = []
    scheduler = scheduled(workers=1, log=lines.append)
    list(scheduler.run(squares(2)))
    scheduler.pool.close()
    assert sorted(lines) == ["[worker 1] squaring 0", "[worker 1] squaring 1"]
