"""The rules of the scheduler, one by one: the pool and the clock are simulated, the scheduler is not."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from vtrace.errors import ModelError
from vtrace.scheduling.scheduler import TASKS_AHEAD, Scheduler
from vtrace.scheduling.simulated_pool import SimulatedCosts, SimulatedPool
from vtrace.scheduling.tasks import Died, Done, Failed, Finished, Raised, Ready, Refused, Task

NO_COSTS = SimulatedCosts()


class ScriptedPool:
    """A pool in which a test says what happens. Payloads say what becomes of a task."""

    def __init__(self, starts=lambda seat: Ready(seat, seat, "here", 0)):
        self.starts = starts
        self.waiting: dict[int, list[str]] = {}
        self.events: list = []
        self.started: list[int] = []
        self.submitted: list[tuple[int, str]] = []
        self.stopped: list[int] = []

    def start(self, seat):
        self.started.append(seat)
        self.waiting[seat] = []
        self.events.append(self.starts(seat))

    def submit(self, seat, payload):
        self.waiting[seat].append(payload)
        self.submitted.append((seat, payload))

    def stop(self, seat):
        self.stopped.append(seat)
        self.waiting.pop(seat)

    def wait(self, seconds):
        if self.events:
            return [self.events.pop(0)]
        seat = max(self.waiting, key=lambda seat: len(self.waiting[seat]))
        payload = self.waiting[seat].pop(0)
        if payload == "kill":
            self.waiting.pop(seat)
            return [Died(seat, "killed by SIGSEGV")]
        return [Raised(seat, "ValueError: no") if payload == "fail" else Finished(seat, payload)]

    def close(self): ...


def tasks(*payloads, costs=None):
    costs = costs or [1.0] * len(payloads)
    return [Task(f"{k}", payload, cost) for k, (payload, cost) in enumerate(zip(payloads, costs, strict=True))]


def simulate(seconds, workers, costs=NO_COSTS, seed=0, order=None):
    """The time that the tasks take, and their outcomes."""
    pool = SimulatedPool(costs, seed)
    work = [Task(str(k), s, cost=s if order is None else order[k]) for k, s in enumerate(seconds)]
    outcomes = list(Scheduler(pool, workers).run(work))
    return pool.clock, outcomes


def test_long_tasks_go_first():
    pool = ScriptedPool()
    list(Scheduler(pool, 1).run(tasks("a", "b", "c", "d", costs=[1, 4, 2, 3])))
    assert [payload for _, payload in pool.submitted] == ["b", "d", "c", "a"]


def test_no_more_than_two_tasks_are_ahead_of_a_worker_and_nobody_is_left_without():
    most = 0

    class Watched(ScriptedPool):
        def wait(self, seconds):
            nonlocal most
            most = max(most, *map(len, self.waiting.values()))
            return super().wait(seconds)

    pool = Watched()
    list(Scheduler(pool, 3).run(tasks(*"abcdefghijkl")))
    assert most == TASKS_AHEAD
    few = Watched()
    list(Scheduler(few, 3).run(tasks(*"abc")))
    assert Counter(seat for seat, _ in few.submitted) == {0: 1, 1: 1, 2: 1}


def test_no_more_workers_are_started_than_there_are_tasks():
    pool = ScriptedPool()
    scheduler = Scheduler(pool, 8)
    list(scheduler.run(tasks("a", "b")))
    assert pool.started == [0, 1]
    list(scheduler.run(tasks("c", "d", "e")))
    assert pool.started == [0, 1, 2]


def test_a_worker_that_dies_has_its_tasks_queued_again():
    """The simulated workers live about as long as ten tasks take."""
    costs = SimulatedCosts(start=1, between_failures=10)
    _, outcomes = simulate([1.0] * 300, 4, costs, seed=1)
    assert sorted(int(one.task.key) for one in outcomes) == list(range(300))
    assert all(isinstance(one, Done) for one in outcomes)


def test_a_task_that_kills_three_workers_has_failed():
    pool = ScriptedPool()
    outcomes = list(Scheduler(pool, 2).run(tasks("kill", *"abcdef")))
    (failed,) = [one for one in outcomes if isinstance(one, Failed)]
    assert (failed.task.key, failed.reason) == ("0", "3 workers died of it: killed by SIGSEGV")
    assert len(outcomes) == 7
    assert [payload for _, payload in pool.submitted].count("kill") == 3


def test_a_worker_that_fails_ten_tasks_in_a_row_is_replaced():
    pool, seen = ScriptedPool(), []
    scheduler = Scheduler(pool, 1, notice=lambda seat, state, reason: seen.append((state, reason)))
    outcomes = list(scheduler.run(tasks(*["fail"] * 9, "fine", *["fail"] * 25)))
    assert Counter(map(type, outcomes)) == {Failed: 34, Done: 1}
    assert pool.stopped == [0, 0]  # after ten of the 25 failures, and after ten more
    assert ("replaced", "10 tasks in a row failed: ValueError: no") in seen


def test_workers_that_keep_dying_end_the_run():
    pool = ScriptedPool()
    found = []
    with pytest.raises(ModelError, match=r"^workers keep dying, the last 10 without finishing anything: killed by SIG"):
        found.extend(Scheduler(pool, 2).run(tasks(*["kill"] * 50)))
    assert found == []


def test_a_worker_that_is_refused_leaves_the_work_to_others():
    said = []
    pool = ScriptedPool(lambda seat: Refused(seat, "no weights") if seat else Ready(seat, seat, "here", 0))
    scheduler = Scheduler(pool, 3, notice=lambda *about: said.append(about))
    assert len(list(scheduler.run(tasks(*"abcdef")))) == 6
    assert [about for about in said if about[1] == "refused"] == [
        (1, "refused", "no weights"),
        (2, "refused", "no weights"),
    ]


def test_greetings_are_checked_and_payloads_prepared_for_their_worker():
    def admit(greeting):
        return "has other weights" if greeting == 1 else None

    pool, said = ScriptedPool(), []
    scheduler = Scheduler(
        pool,
        2,
        admit=admit,
        prepare=lambda task, greeting: f"{task.payload} for {greeting}",
        notice=lambda *about: said.append(about),
    )
    assert {one.value for one in scheduler.run(tasks(*"abc"))} == {"a for 0", "b for 0", "c for 0"}
    assert (1, "refused", "has other weights (on here)") in said
    everybody = Scheduler(ScriptedPool(), 2, admit=lambda greeting: "has other weights")
    with pytest.raises(ModelError, match=r"^no worker can start: has other weights$"):
        list(everybody.run(tasks(*"abc")))


def test_draining_finishes_what_runs_and_hands_out_no_more():
    pool = ScriptedPool()
    scheduler, found = Scheduler(pool, 2), []
    for outcome in scheduler.run(tasks(*"abcdefghij")):
        found.append(outcome.value)
        if len(found) == 3:
            handed_out = len(pool.submitted)
            scheduler.drain()
    assert len(pool.submitted) == handed_out
    assert len(found) == 3 + 2  # what the two workers were working on
    assert pool.waiting == {}


def test_draining_while_workers_start_ends_at_once():
    scheduler = Scheduler(ScriptedPool(), 2)
    scheduler.drain()
    assert list(scheduler.run(tasks("a"))) == []


def test_long_first_is_close_to_the_best_schedule():
    chance = random.Random(0)
    seconds = [chance.lognormvariate(0, 1) for _ in range(200)]
    time, _ = simulate(seconds, 16)
    assert time <= 1.1 * max(sum(seconds) / 16, max(seconds))
    unknown, _ = simulate(seconds, 16, order=[1.0] * 200)
    assert time < unknown


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_the_simulated_clock_agrees_with_the_arithmetic(workers):
    assert simulate([2.0] * 64 * 7, workers, SimulatedCosts(start=3))[0] == pytest.approx(3 + 64 * 7 / workers * 2)


def test_a_slow_driver_is_the_bottleneck_of_many_workers():
    costs = SimulatedCosts(driver=0.1)
    times = {workers: simulate([1.0] * 640, workers, costs)[0] for workers in (1, 8, 64)}
    assert times[1] == pytest.approx(640, rel=0.02)  # a second task is ahead: the worker never waits for the driver
    assert times[8] == pytest.approx(640 / 8, rel=0.2)
    assert times[64] == pytest.approx(640 * 0.1, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_done_twice_whatever_dies(seed):
    chance = random.Random(seed)
    costs = SimulatedCosts(start=0.5, driver=0.001, between_failures=15, slow_workers=0.2, slowdown=4)
    seconds = [chance.expovariate(1) for _ in range(150)]
    _, outcomes = simulate(seconds, chance.randint(1, 12), costs, seed)
    assert sorted(int(one.task.key) for one in outcomes) == list(range(150))
