"""Evaluate: model × benchmark × methods × targets × settings, item by item, resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..attribution.result import Attribution
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.grading import CORRECT, grade
from ..errors import InputError, VTraceError, running
from ..lvlm.model import Lvlm
from ..methods.loo import measured_dependence
from ..methods.registry import find_method, run_method
from ..methods.session import TraceSession
from ..system.peak_memory import PeakMemory
from ..tracing.generate import MAX_NEW_TOKENS, Reply, retrace, trace
from ..tracing.prompt import SYSTEM_PROMPT
from ..tracing.targets import find_target
from ..types import Example, Kind, Progress, Trace, silent
from .curves import STEPS, Curve, Mode
from .evidence import captured_dependence, evidence_positions, localisation
from .likelihoods import Measure, Setting
from .store import Frozen, Rows, Store, run_file


@dataclass(frozen=True)
class Plan:
    """What is measured. Everything but the lists of methods and targets has to stay the same within a run."""

    methods: tuple[str, ...]
    targets: tuple[str, ...] = ("response",)
    seed: int = 0
    blur: float | None = None  # the benchmark's own
    steps: int = STEPS
    calibrated: bool | tuple[str, ...] = False  # all methods as stage 3 does, or those of these names
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)  # further names: the method behind each
    max_new_tokens: int = MAX_NEW_TOKENS
    system: str = SYSTEM_PROMPT

    def check(self) -> None:
        if self.blur is not None:
            check_blur(self.blur)
        if self.steps < 1:
            raise InputError(f"a curve of {self.steps} steps has no area; give 1 or more")
        for target in self.targets:
            if target not in ("response", "answer"):
                raise InputError(f"target {target!r} cannot be evaluated; use response, answer, or both")
        if stray := set(self.options) - set(self.methods):
            raise InputError(f"options were given for {sorted(stray)[0]}, which is not among the methods")
        for name in self.methods:
            find_method(self.method(name)).check(name, self.options.get(name, {}))

    def method(self, name: str) -> str:
        """The method that a name stands for."""
        return self.variants.get(name, name)

    def settings(self, lvlm: Lvlm, benchmark: Benchmark) -> dict[str, Any]:
        """What a run directory remembers, and refuses to mix."""
        return {
            "model": lvlm.name, "revision": lvlm.revision, "dtype": lvlm.dtype, "benchmark": benchmark.name,
            "blur": self.blur or benchmark.blur, "steps": self.steps, "seed": self.seed,
            "calibrated": self.calibrated, "options": self.options,
            "variants": self.variants,
            "max_new_tokens": self.max_new_tokens, "system": self.system,
        }  # fmt: skip


def check_blur(radius: float) -> float:
    if radius <= 0:
        raise InputError(f"a blur of radius {radius:g} hides nothing; give a share of the longer side above 0")
    return radius


def evaluate(
    lvlm: Lvlm, benchmark: Benchmark, plan: Plan, out: Path, *, limit: int | None = None,
    shard: tuple[int, int] = (1, 1), only: Sequence[int] | None = None,
    progress: Progress = silent,
) -> Path:  # fmt: skip
    """Measure what is missing in the run at `out`, in the order of the benchmark, and return its file.

    These are the first examples, up to the `limit`, or `only` those with the given numbers.
    """
    plan.check()
    number, count = shard
    if not 1 <= number <= count:
        raise InputError(f"shard {number}/{count} does not exist; count from 1/{count} to {count}/{count}")
    size = benchmark.size if limit is None else min(limit, benchmark.size)
    mine = (range(size) if only is None else only)[number - 1 :: count]
    with Store(run_file(out, number, count), plan.settings(lvlm, benchmark)) as store:
        store.note_lost(benchmark.lost)
        missing = {index: wanted for index in mine if (wanted := _missing(store, benchmark.key(index), plan))}
        for done, (index, wanted) in enumerate(missing.items(), len(mine) - len(missing)):
            key = benchmark.key(index)
            progress(done, len(mine), key)
            store.save(_item(lvlm, benchmark, plan, index, store.frozen(key), wanted))
        progress(len(mine), len(mine))
        return store.path


def _missing(store: Store, key: str, plan: Plan) -> list[tuple[str, str]]:
    """Targets and methods that are wanted for an item and not measured yet."""
    measured = store.done(key)
    return [pair for pair in product(plan.targets, plan.methods) if pair not in measured]


def _item(
    lvlm: Lvlm, benchmark: Benchmark, plan: Plan, index: int, before: Frozen | None, wanted: list[tuple[str, str]],
) -> Rows:  # fmt: skip
    """Everything that is measured on one item; what goes wrong is part of it."""
    key, radius = benchmark.key(index), plan.blur or benchmark.blur
    try:
        example = benchmark.example(index)
        with running("the response"):
            frozen = _freeze(lvlm, plan, example, before)
        with running("the perturbation"):
            session = TraceSession.open(lvlm, frozen)
            measure = Measure(session, radius)
            clean, image, joint = measure.likelihoods(
                [frozenset(), frozenset(measure.deletable("image")), frozenset(measure.deletable("joint"))]
            )
    except VTraceError as error:
        return _lost(key, wanted, before, error)
    if before and before.asked != fingerprint(example, frozen):
        raise InputError(f"{key} has another picture, question or answer than in this run; choose another --out")
    facts = _facts(index, key, example, frozen) | {
        "clean": clean, "image_perturbed": image, "joint_perturbed": joint,
    }  # fmt: skip
    rows = Rows(facts)
    # Other noise for every item; and what hides pictures from a method is what hides them from the model afterwards.
    defaults = {"seed": noise(plan.seed, index), "radius": radius}
    meter = PeakMemory(lvlm.device)
    found: list[tuple[str, str, Attribution]] = []
    for target, method in wanted:
        try:
            with meter.measure():
                timed = session.timed(partial(_attribute, plan, session, target, method, defaults))
        except VTraceError as error:
            rows.failure.append(_failure(key, target, method, str(error)))
            continue
        attribution = timed.result
        found.append((target, method, attribution))
        rows.result.append(
            {
                "item": key, "target": target, "method": method, "options": json.dumps(dict(attribution.options)),
                "image_share": attribution.image_share, "seconds": timed.seconds, "own_seconds": timed.own_seconds,
                "memory": meter.peak,
            }
        )  # fmt: skip
    try:
        with running("the perturbation"):
            curves = measure.curves([attribution.scores for *_, attribution in found], steps=plan.steps)
    except VTraceError as error:
        return _lost(key, wanted, before, error)
    reference = _reference(plan, session, radius)
    for (target, method, attribution), own_curves in zip(found, curves, strict=True):
        head = {"item": key, "target": target, "method": method}
        rows.curve += [head | _curve(setting, mode, curve) for (setting, mode), curve in own_curves.items()]
        rows.evidence += [head | row for row in _evidence(attribution, reference)]
    return rows


def _freeze(lvlm: Lvlm, plan: Plan, example: Example, before: Frozen | None) -> Trace:
    """Ask, or take up the response of an earlier session."""
    if before is None:
        return trace(lvlm, example, system=plan.system, max_new_tokens=plan.max_new_tokens)
    return retrace(lvlm, example, Reply(before.reply, before.finish), plan.system)


def _lost(key: str, wanted: list[tuple[str, str]], before: Frozen | None, error: VTraceError) -> Rows:
    """An item that cannot be measured is left out; if a part of it was measured earlier, the rest of it has failed."""
    if before is None:
        return Rows(left_out={"item": key, "reason": str(error)})
    return Rows(failure=[_failure(key, target, method, str(error)) for target, method in wanted])


def fingerprint(example: Example, frozen: Trace) -> str:
    """Of everything that a response was given to, and is judged by."""
    digest = hashlib.sha256(repr((frozen.question, example.answer, example.response)).encode())
    for image in frozen.images:
        digest.update(repr(image.size).encode() + image.tobytes())
    return digest.hexdigest()[:16]


def noise(seed: int, index: int) -> int:
    """The seed of one item."""
    return seed * 1_000_003 + index


def _attribute(plan: Plan, session: TraceSession, target: str, name: str, defaults: dict[str, Any]) -> Attribution:
    method = plan.method(name)
    known = find_method(method).options
    options = {key: value for key, value in defaults.items() if key in known} | plan.options.get(name, {})
    calibrated = plan.calibrated if isinstance(plan.calibrated, bool) else name in plan.calibrated
    return run_method(method, session, find_target(session.trace, target), calibrated, **options)


def _facts(index: int, key: str, example: Example, frozen: Trace) -> dict[str, Any]:
    answer = frozen.answer_text
    verdict = grade(example, answer)
    return {
        "key": key, "number": index, "asked": fingerprint(example, frozen), "question": frozen.question,
        "response": frozen.response, "answer": answer, "gold": example.answer, "verdict": verdict,
        "correct": verdict and CORRECT[verdict], "tokens": len(frozen),
        "image_tokens": len(frozen.positions("image")), "finish": frozen.finish,
        "reply": json.dumps(list(frozen.ids[frozen.prompt_length :])),
    }  # fmt: skip


def _curve(setting: Setting, mode: Mode, curve: Curve) -> dict[str, Any]:
    return {
        "setting": setting, "mode": mode, "rise": curve.rise, "mas": curve.mas, "degenerate": curve.degenerate,
        "unranked": curve.unranked, "response": json.dumps(curve.response), "mass": json.dumps(curve.mass),
    }  # fmt: skip


def _reference(plan: Plan, session: TraceSession, radius: float) -> np.ndarray | None:
    """The measured dependence on every input, if leave-one-out, whose passes it shares, is among the methods."""
    if "loo" not in map(plan.method, plan.methods):
        return None
    try:
        with running("leave-one-out"):
            return measured_dependence(session, radius)
    except VTraceError:  # the method has failed for the same reason, which is kept
        return None


def _evidence(attribution: Attribution, reference: np.ndarray | None) -> list[dict[str, Any]]:
    """Where the truth is known: localisation; where dependence was measured: the share of it that is captured."""
    frozen = attribution.trace
    rows = []
    kinds: tuple[Kind, ...] = ("image", "question")
    for kind, truth in zip(kinds, evidence_positions(frozen), strict=True):
        values = localisation(attribution.scores, frozen.positions(kind), truth) if truth else {}
        rows += [{"kind": kind, "metric": metric, "value": value} for metric, value in values.items()]
    if reference is not None and frozen.positions("image"):
        share = captured_dependence(attribution.scores, reference, frozen.positions("image"))
        rows.append({"kind": "image", "metric": "dependence_20", "value": share})
    return rows


def _failure(key: str, target: str, method: str, reason: str) -> dict[str, Any]:
    return {"item": key, "target": target, "method": method, "reason": reason}
