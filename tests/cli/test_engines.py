"""Where `vtrace evaluate` runs, and what it says about it."""

from __future__ import annotations

import json

import pytest

from vtrace.cli.engines import EngineChoice
from vtrace.cli.events import EvaluationEvents


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--address", "10.0.0.1:6379"], "--address is an option of Ray; add --engine ray"),
        (["--workers", "2", "--gpus-per-worker", "1"], "--gpus-per-worker is an option of Ray; add --engine ray"),
        (
            ["--workers", "2", "--endpoint", "http://127.0.0.1:1/v1", "--served-model", "m"],
            "workers do not ask an endpoint; freeze responses with vtrace trace, then use --traces",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_runs(run, options, line):
    assert run("evaluate", *options) == (2, "", f"vtrace: {line}\n")


def test_one_worker_without_an_engine_is_this_process():
    assert EngineChoice(1, None, "", None, None, False).in_this_process
    assert not EngineChoice(2, None, "", None, None, False).in_this_process
    assert not EngineChoice(1, "local", "", None, None, False).in_this_process


def test_events_are_one_json_object_per_line(capsys):
    events = EvaluationEvents(as_json=True, quiet=True)
    with events.progress() as report:
        report(0, 2, "2 of 2 workers")
        report(1, 2, "2 of 2 workers")
    events.worker(0, "died", "killed by SIGKILL")
    events.finished("runs/x/run.sqlite", {"too long": 1}, {})
    first, second, third, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"event": "progress", "done": 0, "total": 2, "label": "2 of 2 workers"}
    assert second["per_minute"] > 0
    assert second["seconds_left"] >= 0
    assert third == {"event": "worker", "worker": 1, "state": "died", "reason": "killed by SIGKILL"}
    assert last == {"event": "finished", "run": "runs/x/run.sqlite", "left_out": {"too long": 1}, "failed": {}}


def test_people_read_one_line_about_a_worker(capsys):
    events = EvaluationEvents(as_json=False, quiet=True)
    events.worker(1, "ready", "process 7 on here")
    events.worker(1, "died", "killed by SIGKILL")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "vtrace: worker 2 died: killed by SIGKILL; it is replaced, and its work is done again\n"
