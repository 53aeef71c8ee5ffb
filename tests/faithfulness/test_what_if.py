"""One hidden set, chosen by hand."""

from __future__ import annotations

import numpy as np
import pytest

import vtrace
from vtrace.errors import InputError
from vtrace.faithfulness.evidence import evidence_positions


@pytest.fixture(scope="module")
def evidence(trace):
    return evidence_positions(trace).image


def test_hiding_the_evidence_changes_the_answer_and_the_words_that_needed_it(pinhole, trace, evidence):
    heard: list[str] = []
    found = vtrace.what_if(pinhole, trace, evidence, listen=heard.append)
    assert found.changed
    assert found.first_answer == "blue cross" != found.answer
    assert heard[-1] == found.text
    assert [len(text) for text in heard] == sorted(len(text) for text in heard)
    fallen = found.likelihoods[0] - found.likelihoods[1]
    assert fallen[-3:].max() > 1, "of the answer"
    assert found.likelihoods.shape == (2, len(trace) - trace.prompt_length)


def test_keeping_some_hides_all_others(pinhole, trace, evidence):
    question = trace.positions("question")
    found = vtrace.what_if(pinhole, trace, [*evidence, *question], keep=True)
    assert found.hidden == tuple(sorted(set(trace.positions("image")) - set(evidence)))
    same = vtrace.what_if(pinhole, trace, found.hidden)
    assert (same.answer, same.text) == (found.answer, found.text)
    np.testing.assert_array_equal(same.likelihoods, found.likelihoods)


@pytest.mark.parametrize(
    ("choose", "options", "words"),
    [
        (lambda trace: [], {}, "nothing is selected; select patches or words"),
        (lambda trace: trace.inputs, {}, "so everything would be hidden; leave some out"),
        (lambda trace: trace.inputs, {"keep": True}, "so nothing would be hidden; leave some out"),
        (lambda trace: [0], {}, "position 0 is neither a patch nor a word of the question"),
        (lambda trace: trace.inputs[:1], {"blur": -1.0}, "blur radius must be positive"),
    ],
)
def test_what_cannot_be_hidden_is_one_line(pinhole, trace, choose, options, words):
    with pytest.raises(InputError) as caught:
        vtrace.what_if(pinhole, trace, choose(trace), **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
