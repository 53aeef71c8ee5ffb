"""Texts that could steer a terminal: whoever wrote them, they are shown and nothing else."""

from __future__ import annotations

import io

from rich.text import Text

from vtrace.cli.terminal import Terminal

SEQUENCE = "\x1b]0;a new title\x07\x1b[2J\x9b31m\r\x7f"


def test_only_the_terminals_own_sequences_reach_it():
    stream = io.StringIO()
    Terminal(file=stream, force_terminal=True, color_system="standard").print(Text(f"a{SEQUENCE}b", "red"))
    shown = stream.getvalue().removeprefix("\x1b[31m").removesuffix("\x1b[0m\n")
    assert shown.isprintable()
    assert "a\ufffd]0;a new title" in shown


def test_a_response_cannot_steer_it(run):
    code, out, err = run("explain", "--response", f"It is {SEQUENCE} red.", "--no-calibrate")
    assert code == 0
    assert not set("\x1b\x07\x9b\r\x7f") & set(out + err)
    assert "a new title" in out


def test_a_name_in_a_message_cannot_either(run):
    code, _, err = run("explain", f"{SEQUENCE}.png", "Is it red?")
    assert code == 2
    assert not set("\x1b\x07\x9b\r\x7f") & set(err)
