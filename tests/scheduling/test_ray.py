"""A real Ray cluster on this machine: two CPUs, no dashboard. All tests that need one are in this file."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.light_work import light
from support.random_kills import RandomKills
from vtrace.errors import InputError, ModelError
from vtrace.scheduling.ray_pool import RayPool
from vtrace.scheduling.scheduler import Scheduler
from vtrace.scheduling.tasks import Done, Failed, Task

pytest.importorskip("ray", reason="Ray is not installed: pip install 'vtrace-attribution[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore::Warning:ray.*", "ignore::ResourceWarning")  # Ray's own


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster that outlives its drivers."""
    from ray.cluster_utils import Cluster

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # so that workers can import what tests send them
    facts = {"num_cpus": 2, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=facts)
    yield cluster.address
    cluster.shutdown()
    monkeypatch.undo()


@pytest.fixture
def scheduled(cluster):
    """Make schedulers with Ray workers, which end with the test."""
    pools = []

    def make(recipe=None, workers=2, **options) -> Scheduler:
        pools.append(RayPool(recipe or light(), cluster))
        return Scheduler(pools[-1], workers, **options)

    yield make
    for pool in reversed(pools):
        pool.close()


def squares(count):
    return [Task(str(number), ("square", number)) for number in range(count)]


def test_every_task_is_done_once(scheduled):
    outcomes = list(scheduled().run(squares(30)))
    assert sorted(one.value for one in outcomes) == [number**2 for number in range(30)]


def test_twenty_random_kills_lose_nothing(scheduled):
    kill = RandomKills(20, every=10)
    outcomes = []
    for outcome in scheduled(notice=kill.notice).run([Task(str(k), ("nap", 0.01)) for k in range(250)]):
        outcomes.append(outcome)
        kill.sometimes()
    assert kill.left == 0
    assert all(isinstance(one, Done) for one in outcomes)
    assert sorted(one.task.key for one in outcomes) == sorted(str(k) for k in range(250))


def test_a_task_that_kills_three_workers_has_failed_and_the_rest_is_done(scheduled):
    outcomes = {one.task.key: one for one in scheduled().run([*squares(5), Task("poison", ("die", None))])}
    assert len(outcomes) == 6
    assert isinstance(outcomes["poison"], Failed)
    assert outcomes["poison"].reason.startswith("3 workers died of it: ")
    assert "\n" not in outcomes["poison"].reason


def test_exceptions_are_values_and_a_worker_without_memory_is_replaced(scheduled):
    states = []
    scheduler = scheduled(workers=1, notice=lambda seat, state, reason: states.append(state))
    tasks = [*squares(2), Task("bad", ("fail", "no such patch")), Task("big", ("forget", "40 GB"))]
    outcomes = {one.task.key: one for one in scheduler.run(tasks)}
    assert outcomes["bad"].reason == "ValueError: no such patch"
    assert outcomes["big"].reason == "3 workers died of it: out of memory"
    assert states.count("died") == 3


def test_workers_that_cannot_start_end_the_run_with_one_line(scheduled):
    with pytest.raises(ModelError, match=r"^no worker can start: cannot load nowhere$"):
        list(scheduled(light(refuse="cannot load nowhere")).run(squares(3)))
    with pytest.raises(ModelError, match=r"^no worker can start: RuntimeError: a bug while starting$"):
        list(scheduled(light(crash=True), 1).run(squares(3)))


def test_workers_that_ray_has_no_room_for_are_not_waited_for(scheduled):
    """Two CPUs are there: of five workers, two do all the work."""
    outcomes = list(scheduled(workers=5).run(squares(40)))
    assert len(outcomes) == 40


def test_a_cluster_without_capacity_is_one_line(cluster):
    with pytest.raises(
        InputError,
        match=r"^no node of the Ray cluster has room for a worker with 1 CPUs and 1 GPUs; the largest has 2 and 0; use",
    ):
        RayPool(light(), cluster, cpus=1, gpus=1)


def test_a_cluster_that_is_not_there_is_one_line():
    with pytest.raises(InputError, match=r"^there is no Ray cluster at 127\.0\.0\.1:1: .*Connection refused$"):
        RayPool(light(), "127.0.0.1:1")


def test_another_version_of_ray_is_one_line(cluster):
    """A fake: this process claims another version. What it meets then is Ray's own check."""
    code = "import ray; ray.__version__ = '1.2.3'; "
    code += "from support.light_work import light; from vtrace.scheduling.ray_pool import RayPool; "
    code += f"RayPool(light(), {cluster!r})"
    said = in_a_process(code)
    assert f"the Ray cluster at {cluster} runs Ray 2.60.0 on Python" in said
    assert "but this process Ray 1.2.3 on Python" in said


def in_a_process(code: str) -> str:
    """The last line that a process with this code prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    return done.stderr.strip().splitlines()[-1]
