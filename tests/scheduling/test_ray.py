"""A real Ray cluster on this machine: two CPUs, no dashboard. All tests that need one are in this file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from support.evaluating import PLAN
from support.evaluation_workers import ITEMS, evaluation, lives, opened, recipe_of, stopped, table_of, without_weights
from support.light_work import light
from support.random_kills import RandomKills
from support.waiting import wait_until
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError, ModelError
from vtrace.faithfulness.run import evaluate, evaluate_on
from vtrace.faithfulness.store import read_run
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


@pytest.fixture(scope="module")
def whole(pinhole, tmp_path_factory):
    """The folder of a run in one process."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(pinhole, find_benchmark("shapes-dev"), PLAN, folder, limit=ITEMS)
    return folder


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_has_the_table_of_one_process(cluster, whole, tmp_path):
    kill = RandomKills(3, every=2)
    with opened(RayPool(recipe_of(), cluster), 2, notice=kill.notice) as engine:
        evaluate_on(
            engine, find_benchmark("shapes-dev"), PLAN, tmp_path, limit=ITEMS, progress=lambda *_: kill.sometimes()
        )
    assert kill.left == 0
    assert table_of(tmp_path) == table_of(whole)


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_with_other_numbers_of_workers(cluster, whole, tmp_path):
    on_ray = ["--engine", "ray", "--address", cluster, "--cpus-per-worker", "0.5"]
    code, workers, _ = stopped(evaluation(tmp_path, *on_ray, "--workers", "2"), 1, signal.SIGKILL)
    assert code == -signal.SIGKILL
    wait_until(lambda: not any(map(lives, workers)), "the end of workers without a driver")
    first = len(read_run(tmp_path).rows.item)
    assert 1 <= first < ITEMS
    stopped(evaluation(tmp_path, *on_ray, "--workers", "3"), first + 1, signal.SIGKILL)
    assert len(read_run(tmp_path).rows.item) > first
    command = evaluation(tmp_path, *on_ray, "--workers", "1")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "run.sqlite")
    assert table_of(tmp_path) == table_of(whole)


@pytest.mark.slow
def test_what_cannot_work_is_one_line_of_the_command(cluster, tmp_path):
    on_ray, folder = ["--engine", "ray", "--address", cluster], without_weights(tmp_path / "model")
    for options, code, line in (
        (["--model", str(folder)], 3, f"no worker can start: cannot load {folder}: "),
        (["--gpus-per-worker", "1"], 2, "no node of the Ray cluster has room for a worker with 1 CPUs and 1 GPUs"),
    ):
        done = subprocess.run(evaluation(tmp_path / "run", *on_ray, *options), capture_output=True, text=True)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1].startswith(f"vtrace: {line}")


def test_a_cluster_without_capacity_is_one_line(cluster):
    with pytest.raises(
        InputError,
        match=r"^no node of the Ray cluster has room for a worker with 1 CPUs and 1 GPUs; the largest has 2 and 0; use",
    ):
        RayPool(light(), cluster, cpus=1, gpus=1)


def test_a_cluster_that_is_not_there_is_one_line():
    with pytest.raises(InputError, match=r"^there is no Ray cluster at 127\.0\.0\.1:1: .*Connection refused$"):
        RayPool(light(), "127.0.0.1:1")


def test_without_an_address_ray_starts_for_this_run_even_beside_another_cluster(cluster):
    code = "import sys; from support.light_work import light; from vtrace.scheduling.ray_pool import RayPool; "
    code += "pool = RayPool(light()); import ray; address = ray.get_runtime_context().gcs_address; "
    code += "pool.close(); print(address, file=sys.stderr)"
    address = in_a_process(code)
    assert re.fullmatch(r"[\d.]+:\d+", address)
    assert address != cluster


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
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    return done.stderr.strip().splitlines()[-1]
