"""Studies that compare variants of methods: a small evaluation, its table and a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from ..errors import InputError
from ..faithfulness.item import freeze_item, measure_item
from ..faithfulness.plan import EvaluationPlan
from ..faithfulness.render import markdown
from ..faithfulness.rows import EvaluatedTarget, LeftOutRow, LostRow, RunRows, TargetAndMethod
from ..faithfulness.store import FrozenResponse, Run
from ..faithfulness.tables import Subset, Table, tabulate
from ..types import Progress
from .balanced_answers import choose_balanced
from .store import StudyStore
from .study import Findings, Study, StudyReport, StudySetup
from .variant_plots import Bars, VariantPlot


class Variant(NamedTuple):
    """A method with options."""

    method: str
    options: Mapping[str, Any] = {}


@dataclass(frozen=True)
class VariantStudy(Study[RunRows]):
    """Named variants, evaluated on the same examples."""

    name: str
    about: str
    variants: Mapping[str, Variant]
    plot: VariantPlot = field(default_factory=Bars)
    targets: tuple[EvaluatedTarget, ...] = ("response", "answer")
    subsets: tuple[Subset, ...] = ("all",)
    calibrated: tuple[str, ...] = ()  # variants of other methods that are also calibrated
    limit: int = 50

    def plan(self, setup: StudySetup) -> EvaluationPlan:
        return EvaluationPlan(
            methods=tuple(self.variants),
            targets=self.targets,
            seed=setup.seed,
            blur=setup.blur,
            calibrated=self.calibrated,
            options={label: variant.options for label, variant in self.variants.items() if variant.options},
            variants={label: variant.method for label, variant in self.variants.items()},
            max_new_tokens=setup.benchmark.max_new_tokens,
            system=setup.benchmark.system,
        )

    def settings(self, setup: StudySetup) -> Mapping[str, object]:
        return self.plan(setup).settings(setup.lvlm, setup.benchmark)

    def choose(self, setup: StudySetup, store: StudyStore, limit: int, progress: Progress) -> Sequence[int]:
        if "incorrect" in self.subsets:
            return choose_balanced(setup, store, limit, progress)
        return super().choose(setup, store, limit, progress)

    def measure(self, setup: StudySetup, number: int, before: RunRows | None) -> RunRows:
        plan = self.plan(setup)
        item = freeze_item(setup.lvlm, setup.benchmark, plan.responses, number, _response(before) if before else None)
        found = measure_item(setup.lvlm, plan, item, setup.blur, self._missing(before or RunRows()))
        if before:
            found.result[:0] = before.result
            found.curve[:0] = before.curve
            found.evidence[:0] = before.evidence
        return found

    def is_complete(self, found: RunRows) -> bool:
        return not self._missing(found)

    def _missing(self, found: RunRows) -> list[TargetAndMethod]:
        measured = {TargetAndMethod(row["target"], row["method"]) for row in found.result}
        pairs = map(TargetAndMethod._make, product(self.targets, self.variants))
        return [pair for pair in pairs if pair not in measured]

    def decode(self, value: Any) -> RunRows:
        return RunRows(**value)

    def report(self, findings: Findings[RunRows]) -> StudyReport:
        run = self._run(findings)
        present = {row["method"] for row in run.rows.result}
        columns = [label for label in self.variants if label in present]
        table = tabulate(run, methods=columns, subsets=self.subsets, against=next(iter(columns), None))
        self._check_comparable(table)
        text = markdown(table, intervals=True)
        lost = {row["method"]: row["reason"] for row in run.rows.failure if row["method"] not in present}
        text += "".join(f"Failed everywhere: {label}: {reason}\n" for label, reason in lost.items())
        return StudyReport(text, self.plot.draw(run, table))

    def _run(self, findings: Findings[RunRows]) -> Run:
        """The findings as a run, from which tables are made."""
        setup, rows = findings.setup, RunRows()
        for found in findings.found.values():
            rows.extend(found)
        rows.left_out.extend(LeftOutRow(item=key, reason=reason) for key, reason in findings.left_out.items())
        rows.lost.extend(LostRow(file=file, reason=reason) for file, reason in setup.benchmark.lost)
        return Run(self.plan(setup).settings(setup.lvlm, setup.benchmark), rows)

    def _check_comparable(self, table: Table) -> None:
        if not table.lines:
            failures = [reason for facts in table.runs.values() for reason in facts.failures]
            reasons = "; ".join(failures) or "none of them succeeded on the same items"
            raise InputError(f"the variants of {self.name} cannot be compared: {reasons}")


def _response(rows: RunRows) -> FrozenResponse:
    (item,) = rows.item
    return FrozenResponse(item["asked"], json.loads(item["reply"]), item["finish"])
