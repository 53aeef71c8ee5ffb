"""Embedded examples are found by split and number."""

from __future__ import annotations

import pytest

from vtrace.benchmarks.embedded import SHOWN, example
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError


def test_the_default_example_is_one_of_the_shapes_benchmark():
    found, expected = example(), find_benchmark("shapes").example(11)
    assert found.key == expected.key == SHOWN
    assert (found.question, found.answer) == (expected.question, expected.answer)
    assert found.images[0].tobytes() == expected.images[0].tobytes()
    assert found.evidence_boxes
    assert found.evidence_words


def test_leading_zeros_may_be_left_out():
    assert example("dev-7").key == example("dev-00007").key == "dev-00007"


@pytest.mark.parametrize("key", ["zebra", "test", "test-", "test-x", "validation-1", ""])
def test_other_keys_are_refused(key):
    with pytest.raises(InputError, match=f"there is no example '{key}'; use a split and a number, such as test-7"):
        example(key)
