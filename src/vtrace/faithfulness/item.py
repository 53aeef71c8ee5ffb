"""One item of an evaluation: freeze its response, attribute it by every method, and measure the attributions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from ..attribution.options import CalibrateOn
from ..attribution.result import Attribution
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.grading import CORRECT, grade
from ..errors import InputError, VTraceError, running
from ..lvlm.model import Lvlm
from ..methods.loo import measured_dependence
from ..methods.registry import find_method, keeps_layers, run_method
from ..methods.session import TraceSession
from ..system.peak_memory import PeakMemory
from ..tracing.generate import retrace, trace
from ..tracing.reply import Reply
from ..tracing.targets import find_target
from ..types import Example, Trace
from .curves import Curve
from .evidence import captured_dependence, evidence_positions, localisation, other_positions
from .likelihoods import CurveKind, ResponseLikelihoods, hideable_positions, measured_settings
from .plan import EvaluationPlan, ResponsePlan, item_seed
from .response_row import fingerprint
from .rows import (
    CurveRow,
    EvaluatedTarget,
    EvidenceKind,
    EvidenceRow,
    FailureRow,
    ItemRow,
    ResultRow,
    RunRows,
    TargetAndMethod,
)
from .store import FrozenResponse


class ChangedExampleError(InputError):
    """An example has changed since the run asked about it."""


@dataclass(frozen=True)
class FrozenExample:
    """An example of a benchmark and the frozen response to it."""

    key: str
    number: int
    example: Example
    trace: Trace

    @property
    def fingerprint(self) -> str:
        """Fingerprint of everything that the response depends on and is graded by."""
        return fingerprint(replace(self.example, images=self.trace.images, question=self.trace.question))


class Attributed(NamedTuple):
    """One attribution of an item, with the names used in its rows."""

    target: EvaluatedTarget
    method: str
    attribution: Attribution


def freeze_item(
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, index: int, before: FrozenResponse | None = None
) -> FrozenExample:
    """Ask the model, or reuse the response of an earlier session."""
    example, key = benchmark.example(index), benchmark.key(index)
    with running("the response"):
        if before is None:
            frozen = trace(lvlm, example, system=plan.system, max_new_tokens=plan.max_new_tokens)
        else:
            frozen = retrace(lvlm, example, Reply(before.ids, before.finish), plan.system)
    item = FrozenExample(key, index, example, frozen)
    if before and before.asked != item.fingerprint:
        raise ChangedExampleError(
            f"{key} has a different picture, question or answer than when its response was frozen; choose another --out"
        )
    return item


def measure_item(
    lvlm: Lvlm, plan: EvaluationPlan, item: FrozenExample, radius: float, wanted: Sequence[TargetAndMethod]
) -> RunRows:
    """The rows of one item for the wanted targets and methods. A method that fails gets a failure row."""
    with running("the perturbation"):
        names = dict.fromkeys(one.method for one in wanted)
        keep = keeps_layers([plan.method(name) for name in names])
        session = TraceSession.open(lvlm, item.trace, keep_layers=keep)
        likelihoods = ResponseLikelihoods(session, radius)
        rows = RunRows(item=[_item_row(item, likelihoods)])
    found = _attribute_all(plan, item, session, radius, wanted, rows)
    with running("the perturbation"):
        settings = measured_settings(item.trace)
        curves = likelihoods.curves([one.attribution.scores for one in found], settings, steps=plan.steps)
    reference = _reference(plan, session, radius)
    for one, own_curves in zip(found, curves, strict=True):
        rows.curve.extend(_curve_row(item.key, one, kind, curve) for kind, curve in own_curves.items())
        rows.evidence.extend(_evidence_rows(item, one, reference))
    return rows


def _item_row(item: FrozenExample, likelihoods: ResponseLikelihoods) -> ItemRow:
    frozen = item.trace
    verdict = grade(item.example, frozen.answer_text)
    clean, image, joint = likelihoods.measure(
        [frozenset(), frozenset(hideable_positions(frozen, "image")), frozenset(hideable_positions(frozen, "joint"))]
    )
    return ItemRow(
        key=item.key,
        number=item.number,
        asked=item.fingerprint,
        question=frozen.question,
        response=frozen.response,
        answer=frozen.answer_text,
        gold=item.example.answer,
        verdict=verdict,
        correct=CORRECT[verdict] if verdict else None,
        tokens=len(frozen),
        image_tokens=len(frozen.positions("image")),
        finish=frozen.finish,
        reply=json.dumps(list(frozen.ids[frozen.prompt_length :])),
        clean=clean,
        image_perturbed=image,
        joint_perturbed=joint,
    )


def _attribute_all(
    plan: EvaluationPlan,
    item: FrozenExample,
    session: TraceSession,
    radius: float,
    wanted: Sequence[TargetAndMethod],
    rows: RunRows,
) -> list[Attributed]:
    """Run the methods, and record their costs and failures as rows."""
    # Methods that blur the picture use the same blur as the measurement afterwards; calibration is the paper's.
    defaults = {"seed": item_seed(plan.seed, item.number), "radius": radius, "calibrate_on": "response"}
    memory = PeakMemory(session.lvlm.device)
    found = []
    for target, method in wanted:
        try:
            with memory.measure():
                timed = session.timed(partial(_attribute, plan, session, target, method, defaults))
        except VTraceError as error:
            rows.failure.append(FailureRow(item=item.key, target=target, method=method, reason=str(error)))
            continue
        found.append(Attributed(target, method, timed.result))
        rows.result.append(
            ResultRow(
                item=item.key,
                target=target,
                method=method,
                options=json.dumps(dict(timed.result.options)),
                image_share=timed.result.image_share,
                seconds=timed.seconds,
                own_seconds=timed.own_seconds,
                memory=memory.peak,
                passes=timed.passes,
            )
        )
    return found


def _attribute(
    plan: EvaluationPlan, session: TraceSession, target: str, name: str, defaults: dict[str, Any]
) -> Attribution:
    method = plan.method(name)
    known = find_method(method).options
    options = {key: value for key, value in defaults.items() if key in known} | dict(plan.options.get(name, {}))
    calibrated: CalibrateOn | None = "response" if plan.calibrates(name) else None
    return run_method(method, session, find_target(session.trace, target), calibrated, **options)


def _reference(plan: EvaluationPlan, session: TraceSession, radius: float) -> np.ndarray | None:
    """The measured dependence on every input, if leave-one-out, whose passes it shares, is among the methods."""
    if not any(find_method(plan.method(name)).reference for name in plan.methods):
        return None
    try:
        with running("leave-one-out"):
            return measured_dependence(session, radius)
    except VTraceError:  # the method failed for the same reason, which is recorded
        return None


def _curve_row(key: str, one: Attributed, kind: CurveKind, curve: Curve) -> CurveRow:
    return CurveRow(
        item=key,
        target=one.target,
        method=one.method,
        setting=kind.setting,
        mode=kind.mode,
        rise=_number(curve.rise),
        mas=_number(curve.mas),
        degenerate=curve.degenerate,
        unranked=curve.unranked,
        response=json.dumps(curve.response),
        mass=json.dumps(curve.mass),
    )


def _evidence_rows(item: FrozenExample, one: Attributed, reference: np.ndarray | None) -> list[EvidenceRow]:
    """Evidence metrics if the evidence is known, and the share of the measured dependence if there is one."""
    scores, frozen = one.attribution.scores, item.trace

    def row(kind: EvidenceKind, metric: str, value: float) -> EvidenceRow:
        return EvidenceRow(
            item=item.key, target=one.target, method=one.method, kind=kind, metric=metric, value=_number(value)
        )

    known, others = evidence_positions(frozen), other_positions(frozen, item.example)
    rows = []
    for kind in get_args(EvidenceKind):
        inputs, truth = frozen.positions(kind), getattr(known, kind)
        found = localisation(scores, inputs, truth, getattr(others, kind)) if truth else {}
        rows += [row(kind, metric, value) for metric, value in found.items()]
    measured: EvidenceKind = "image" if frozen.patches else "question"
    if reference is not None and frozen.positions(measured):
        held = captured_dependence(scores, reference, frozen.positions(measured))
        rows.append(row(measured, "dependence_20", held))
    return rows


def _number(value: float) -> float | None:
    """None for NaN, as stored in the database."""
    return None if math.isnan(value) else value
