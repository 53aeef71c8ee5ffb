"""Targets by meaning."""

from __future__ import annotations

import pytest

import vtrace
from vtrace.errors import InputError
from vtrace.tracing.targets import find_target

RESPONSE = "The red star is at row 1 column 2. It is red.\nFinal answer: red star"


@pytest.fixture(scope="module")
def told(pinhole):
    return vtrace.trace(pinhole, vtrace.example("dev-0"), response=RESPONSE)


def text_of(trace, spec):
    target = find_target(trace, spec)
    return "".join(trace.text[slice(*trace.offsets[p])] for p in target.positions)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("answer", " red star"),
        ("response", RESPONSE + "<|im_end|>"),
        ("reasoning", "The red star is at row 1 column 2. It is red.\n"),
        ("sentence 1", "The red star is at row 1 column 2."),
        ("sentence 2", " It is red.\n"),
        ("sentence -1", "Final answer: red star"),
        ('"red star"', " red star"),
        ('"red star"#2', " red star"),
        ("'It is red'", " It is red"),
        (r"/\d/", "12"),
        ("/^The/", "The"),
        ("/star$/", " star"),
        (1, " red"),
        ("tokens 0-1", "The red"),
        ([1, 2], " red star"),
        (slice(0, 2), "The red"),
    ],
)
def test_targets_cover_what_they_mean(told, spec, text):
    assert text_of(told, spec) == text


def test_occurrences_are_counted(told):
    first, second = (find_target(told, f'"red star"#{n}').positions for n in (1, 2))
    assert first < second
    assert second == find_target(told, "answer").positions


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ('"blue"', "does not contain 'blue'"),
        ('"red star"#5', "there is no occurrence 5"),
        ("/[/", "not valid"),
        ("/zebra/", "nothing in the response matches"),
        ("sentence 9", "the response has 3"),
        ("tokens 900-901", "the response has tokens 0 to"),
        ("tokens 0-999999999", "the response has tokens 0 to"),
        ("tokens 0-" + "9" * 5000, "unknown target"),
        ("sentence " + "9" * 5000, "unknown target"),
        (r"/(?:\w|\S|.|\s)+[~#]/", "takes too long"),
        ("/a{1000000000}/", "repeats too much"),
        ("/(?:(?:a{900}){900}){900}/", "repeats too much"),
        ("/(?R)/", "not valid"),
        ("/" + "(" * 400 + ")" * 400 + "/", "regular expression"),
        ("/" + "a" * 2000 + "/", "the limit is 1000"),
        ("the answer please", "does not contain 'the answer please'"),
        ("awnser", "did you mean answer"),
        ("Response", "did you mean response"),
        ("sentence two", "unknown target"),
        ("", "unknown target"),
        ([], "empty"),
        (slice(4, 4), "empty"),
    ],
)
def test_a_target_that_matches_nothing_says_so(told, spec, word):
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        find_target(told, spec)
    assert word in str(caught.value)


def test_expressions_that_hang_in_other_engines_end(told):
    assert find_target(told, "/(a+)+/").positions
    with pytest.raises(InputError, match=r"nothing in the response matches|takes too long"):
        find_target(told, "/(a+)+$/")


def test_no_answer_line(pinhole):
    bare = vtrace.trace(pinhole, vtrace.example("dev-0"), response="It is red")
    with pytest.raises(InputError, match="no 'Final answer:' line"):
        find_target(bare, "answer")
