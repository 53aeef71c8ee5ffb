"""`vtrace trace`, and what `vtrace evaluate --traces` makes of its folder."""

from __future__ import annotations

import json

import pytest

from support.fake_endpoint import SERVED, fake_endpoint, good, web_page


def test_responses_are_frozen_and_measured_with_the_settings_of_their_folder(run, tmp_path):
    traces, place = tmp_path / "traces", tmp_path / "run"
    asked = ["trace", "-b", "shapes-dev", "--limit", "2", "--max-new-tokens", "30", "--system", "", "--out", traces]
    code, out, err = run(*asked, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["responses"], found["left_out"]) == (2, {})
    assert found["file"] == str(traces / "traces.sqlite")
    assert run(*asked)[1].strip() == found["file"]  # nothing is left to do
    code, out, err = run("evaluate", "--traces", traces, "--methods", "random", "--steps", "2", "--out", place)
    assert code == 0, err
    assert out.strip() == str(place / "run.sqlite")
    code, out, _ = run("evaluate", "--traces", traces, "--system", "Be brief.", "--out", tmp_path / "other")
    assert (code, (tmp_path / "other").exists()) == (2, False)


def test_a_server_can_be_asked_in_both_commands(run, tmp_path):
    with fake_endpoint(good) as server:
        served = ["--endpoint", server.url, "--served-model", SERVED, "--limit", "1", "-b", "shapes-dev"]
        assert run("trace", *served, "--out", tmp_path / "traces")[0] == 0
        more = ["--methods", "random", "--steps", "2", "--out", tmp_path / "run"]
        code, _, err = run("evaluate", *served, *more)
    assert code == 0, err
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace", "--served-model", "x"], "--served-model needs --endpoint"),
        (["trace", "--endpoint", "http://localhost/v1"], "--endpoint needs --served-model"),
        (["trace", "--shard", "two"], "cannot read --shard 'two'"),
        (["trace", "-b", "nothing"], "unknown benchmark 'nothing'"),
        (["evaluate", "--traces", "nowhere"], "there are no responses in nowhere; freeze some with: vtrace trace"),
        (["evaluate", "--traces", "x", "--endpoint", "http://h/v1", "--served-model", "m"], "mutually exclusive"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_server_that_cannot_be_used_is_one_line(run, tmp_path):
    common = ["trace", "--served-model", SERVED, "--limit", "1", "--out", tmp_path]
    with fake_endpoint(web_page) as server:
        code, _, err = run(*common, "--endpoint", server.url)
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "answers with a web page" in err
