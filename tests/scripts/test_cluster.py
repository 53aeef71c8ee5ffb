"""The simulation of a cluster agrees with what was measured, and with itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import cluster

    yield cluster
    sys.modules.pop("cluster")


@pytest.fixture
def scale():
    return json.loads((BENCH / "measured" / "scale.json").read_text("utf-8"))


def test_one_and_two_workers_are_predicted_within_a_fifth(cluster, scale):
    found = cluster.check(scale)
    assert {(one["engine"], one["workers"]) for one in found} == {(e, n) for e in ("local", "ray") for n in (1, 2)}
    for one in found:
        assert abs(one["off"]) < 0.2, one


def test_more_workers_take_less_time_and_no_fewer_hours_of_gpus(cluster, scale, monkeypatch):
    monkeypatch.setattr(cluster, "WORKERS", (1, 16, 64))
    monkeypatch.setattr(cluster, "BENCHMARKS", ("realworldqa",))
    item = json.loads((BENCH / "measured" / "item.json").read_text("utf-8"))
    found = cluster.predict(scale, item, cluster.Assumptions())
    assert (found["runs"], found["items"]) == (4, 4 * 765)
    one, few, many = found["one_after_another"]
    assert one["hours"] > few["hours"] > many["hours"]
    assert one["worker_hours"] < few["worker_hours"] * 1.05
    assert few["efficiency"] >= many["efficiency"]
