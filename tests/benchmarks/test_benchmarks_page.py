"""docs/how-to/benchmark.md says what the code says."""

from __future__ import annotations

from typing import get_args

from support.pages import names_in, table_under
from vtrace.benchmarks.registry import describe_benchmarks
from vtrace.types import AnswerKind

PAGE = "how-to/benchmark.md"


def test_the_page_lists_every_benchmark_with_its_size_licence_and_source():
    listed = {}
    for names, items, licence, source, _ in table_under(PAGE, "name"):
        sizes = items.split("; ")
        for number, name in enumerate(names_in(names)):
            listed[name] = (sizes[min(number, len(sizes) - 1)], licence, source)
    facts = {facts["name"]: facts for facts in describe_benchmarks()}
    assert listed.keys() == facts.keys()
    for name, (size, licence, source) in listed.items():
        assert (size, licence) == (f"{facts[name]['size']:,}", facts[name]["licence"]), name
        place = facts[name]["hub"][0] if "hub" in facts[name] else facts[name]["from"]
        assert source.replace("`", "").startswith(place), name


def test_the_page_explains_every_kind_of_answer():
    assert {kind for kind, *_ in table_under(PAGE, "kind")} == set(get_args(AnswerKind))
