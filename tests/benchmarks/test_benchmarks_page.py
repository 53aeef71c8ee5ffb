"""docs/benchmarks.md says what the code says."""

from __future__ import annotations

import re
from typing import get_args

from support.readme import table_of
from vtrace.benchmarks.registry import describe_benchmarks
from vtrace.types import AnswerKind

PAGE = "docs/benchmarks.md"


def test_the_page_lists_every_benchmark_with_its_size_licence_and_source():
    listed = {}
    for row in table_of(PAGE, "name", "items", "licence", "source"):
        sizes = row["items"].split("; ")
        for number, name in enumerate(re.findall(r"`([^`]+)`", row["name"])):
            listed[name] = (sizes[min(number, len(sizes) - 1)], row["licence"], row["source"].replace("`", ""))
    facts = {facts["name"]: facts for facts in describe_benchmarks()}
    assert listed.keys() == facts.keys()
    for name, (size, licence, source) in listed.items():
        assert (size, licence) == (f"{facts[name]['size']:,}", facts[name]["licence"]), name
        assert source.startswith(facts[name]["hub"][0] if "hub" in facts[name] else facts[name]["from"]), name


def test_the_page_explains_every_kind_of_answer():
    assert {row["kind"] for row in table_of(PAGE, "kind", "correct is")} == set(get_args(AnswerKind))
