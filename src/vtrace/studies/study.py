"""The interface of a study: a measurement on every example, and a page of tables with a plot made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from matplotlib.figure import Figure

from ..benchmarks.benchmark import Benchmark
from ..faithfulness.plan import family_setting
from ..lvlm.model import Lvlm
from ..tracing.generate import trace
from ..types import Progress, Trace
from .store import StudyStore

Found = TypeVar("Found")  # what a study measures on one example


@dataclass(frozen=True)
class StudySetup:
    """What a study runs on."""

    lvlm: Lvlm
    benchmark: Benchmark
    seed: int
    blur: float  # radius, as a fraction of the longer side

    def freeze(self, number: int) -> Trace:
        """Ask the model about one example, as the benchmark says."""
        example, asked = self.benchmark.example(number), self.benchmark
        return trace(self.lvlm, example, system=asked.system, max_new_tokens=asked.max_new_tokens)


@dataclass(frozen=True)
class Findings(Generic[Found]):
    """What a study measured on its examples, in the order of the benchmark."""

    setup: StudySetup
    found: dict[str, Found]  # by key of the example
    left_out: dict[str, str]  # reason, by key of the example


class StudyReport(NamedTuple):
    """The tables of a study, as Markdown, and its plot."""

    tables: str
    figure: Figure


class Study(Protocol[Found]):
    """One study. Measurements are kept as JSON, so that interrupted studies resume."""

    name: str
    about: str  # a phrase in lower case
    limit: int  # how many examples are measured by default

    def settings(self, setup: StudySetup) -> Mapping[str, object]:
        """Settings that all measurements in one folder share."""
        return {
            "model": setup.lvlm.name,
            "revision": setup.lvlm.revision,
            "dtype": setup.lvlm.dtype,
            "family": family_setting(setup.lvlm),
            "benchmark": setup.benchmark.name,
            "seed": setup.seed,
            "blur": setup.blur,
        }

    def choose(self, setup: StudySetup, store: StudyStore, limit: int, progress: Progress) -> Sequence[int]:
        """Numbers of the examples to measure: the first ones by default."""
        return range(min(limit, setup.benchmark.size))

    def measure(self, setup: StudySetup, number: int, before: Found | None) -> Found:
        """Measure one example, or complete what an earlier session measured `before`."""

    def is_complete(self, found: Found) -> bool:
        """Whether nothing is left to measure on an example."""
        return True

    def decode(self, value: Any) -> Found:
        """Load a measurement from JSON."""

    def report(self, findings: Findings[Found]) -> StudyReport:
        """Make tables and a plot of everything that was measured."""
