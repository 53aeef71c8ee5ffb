"""Progress is for people who watch: a label, a count, a rate; nothing at all in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from vtrace.cli.progress import describe_pace, progress_bar, spinner
from vtrace.types import silent


class Terminal(io.StringIO):
    """A stderr that someone looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def watch(monkeypatch):
    """Give the process a terminal. Called in the test itself, because pytest sets stderr anew before every test."""

    def start() -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        return screen

    return start


@pytest.mark.parametrize("shown", [spinner, progress_bar])
def test_quiet_shows_nothing(shown, watch):
    terminal = watch()
    with shown(quiet=True) as report:
        assert report is silent
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("shown", [spinner, progress_bar])
def test_a_pipe_gets_nothing(shown, monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with shown(quiet=False) as report:
        assert report is silent
    assert pipe.getvalue() == ""


def test_the_bar_shows_the_label_and_the_count(watch):
    terminal = watch()
    with progress_bar(quiet=False) as report:
        report(3, 8, "test-00003")
    assert "test-00003" in terminal.getvalue()
    assert "3/8" in terminal.getvalue()


def test_the_spinner_gives_the_cursor_back(watch):
    terminal = watch()
    with spinner(quiet=False) as report:
        report(0, 0, "Loading pinhole")
        report(2, 5, "loo")
    assert "\x1b[?25h" in terminal.getvalue()


def test_the_pace_is_that_of_what_was_measured():
    assert describe_pace(0, 10, 5.0) == describe_pace(10, 0, 5.0) == ""
    assert describe_pace(3, 6, 30.0) == "6 per minute, 0:01:00 left"
    assert describe_pace(1, 100, 480.0) == "0.125 per minute, 13:20:00 left"  # an item of eight minutes
