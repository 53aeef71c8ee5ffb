"""Verify an explanation: hide what it names, ask the model again, and compare with hiding other inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ..attribution.findings.verification import (
    ComparedSets,
    FaithfulnessCurve,
    Verification,
    VerifiedSide,
    VerifiedStep,
)
from ..attribution.result import Attribution
from ..errors import running
from ..lvlm.model import Lvlm
from ..methods.session import TraceSession
from ..types import Progress, silent
from .ask_again import AskAgain, NewReply, same_answer
from .curves import Curve
from .hidden_sets import sizes_to_try, smallest_success
from .likelihoods import CurveKind, ResponseLikelihoods
from .verification_plan import TRIED, VerificationPlan

Side = Literal["necessary", "sufficient"]
SIDES: tuple[Side, ...] = ("necessary", "sufficient")
_Found = dict[Side, int | None]  # the smallest size that succeeded
_Choose = Callable[[int], Sequence[int]]  # other inputs instead of the strongest so many


def verify(lvlm: Lvlm, attribution: Attribution, *, progress: Progress = silent, **options: Any) -> Attribution:
    """The same attribution with its `verification`: what the model answers when the evidence is hidden.

    Args:
        lvlm: the model, from `load`.
        attribution: the explanation to verify, by any method and for any target.
        progress: receives the number of finished generations.
        options: setting ("joint", "image" or "question": which inputs are hidden), blur (radius, as a fraction of the
            longer side), passes, generations and draws (how much may be tried), seed (of the random draws).
    """
    plan = VerificationPlan.of(attribution, **options)
    return replace(attribution, verification=run_plan(lvlm, attribution, plan, progress))


def run_plan(lvlm: Lvlm, attribution: Attribution, plan: VerificationPlan, progress: Progress = silent) -> Verification:
    """Verify as planned."""
    with running("verifying"):
        return _Verifier(lvlm, attribution, plan, progress).run()


class _Verifier:
    """One verification: likelihoods of the frozen response, and new replies, with inputs hidden."""

    def __init__(self, lvlm: Lvlm, attribution: Attribution, plan: VerificationPlan, progress: Progress):
        self.attribution, self.plan, self.progress = attribution, plan, progress
        session = TraceSession.open(lvlm, attribution.trace, keep_layers=False)
        self.likelihoods = ResponseLikelihoods(session, plan.blur)
        self.asked = AskAgain(session, plan.blur)
        self.tokens = [p - attribution.trace.prompt_length for p in attribution.target.positions]
        self.sizes: dict[Side, set[int]] = {side: {0, *plan.sizes, len(plan.inputs)} for side in SIDES}  # tried so far

    def run(self) -> Verification:
        plan = self.plan
        self.progress(0, plan.generations, "Measuring likelihoods")
        self.likelihoods.measure(plan.states())
        self._search()
        found: _Found = {side: smallest_success(self._succeeded(side)) for side in SIDES}
        random, lowest = self._compare(found)
        (curves,) = self.likelihoods.curves([self.attribution.scores], (plan.setting,), plan.steps)
        sides = {side: self._side(side, found[side]) for side in SIDES}
        return Verification(
            answer=self._said(self._first),
            setting=plan.setting,
            blur=plan.blur,
            seed=plan.seed,
            count=plan.inputs.count(range(len(plan.inputs))),
            order=tuple(item.positions for item in plan.inputs.items),
            random=random,
            lowest=lowest,
            insertion=_curve(curves[CurveKind(plan.setting, "insertion")]),
            deletion=_curve(curves[CurveKind(plan.setting, "deletion")]),
            passes=self.likelihoods.passes,
            generations=self.asked.calls,
            sequences=self.asked.sequences,
            warnings=tuple(self._warnings()),
            **sides,
        )

    def _state(self, side: Side, numbers: Sequence[int]) -> frozenset[int]:
        """Positions that are hidden."""
        return self.plan.inputs.hide(numbers) if side == "necessary" else self.plan.inputs.keep(numbers)

    def _ask(self, states: Iterable[frozenset[int]]) -> list[NewReply]:
        replies = self.asked.ask(states)
        self.progress(self.asked.calls, self.plan.generations, "Asking again")
        return replies

    @property
    def _first(self) -> NewReply:
        """The reply with nothing hidden."""
        return self.asked.ask([frozenset()])[0]

    def _replies(self, side: Side) -> dict[int, NewReply]:
        """The reply at each size tried so far."""
        sizes = sorted(self.sizes[side])
        return dict(zip(sizes, self.asked.ask(self._state(side, range(size)) for size in sizes), strict=True))

    def _succeeded(self, side: Side) -> dict[int, bool]:
        """Whether each size changed the answer (necessary), or restored it (sufficient)."""
        wanted = side == "sufficient"
        return {size: same_answer(reply, self._first) == wanted for size, reply in self._replies(side).items()}

    def _search(self) -> None:
        """Ask at the sizes of the ladder, then at sizes between its steps, and leave one generation for comparisons."""
        more = self.sizes
        for _ in range(self.plan.generations - 1):
            self.sizes = {side: self.sizes[side] | more[side] for side in SIDES}
            self._ask(self._state(side, range(size)) for side in SIDES for size in more[side])
            more = {side: set(sizes_to_try(self._succeeded(side), TRIED)) for side in SIDES}
            if not any(more.values()):
                return

    def _compare(self, found: _Found) -> list[ComparedSets]:
        """Random sets and the lowest ranked inputs instead of the sets that were found, all in one generation."""
        random: list[_Choose] = [partial(self.plan.random, draw=draw) for draw in range(self.plan.draws)]
        others: list[list[_Choose]] = [random, [self.plan.lowest]]
        self._ask(state for choose in others for side in SIDES for state in self._others(side, found[side], choose))
        return [self._compared(found, choose) for choose in others]

    def _others(self, side: Side, size: int | None, choose: Sequence[_Choose]) -> list[frozenset[int]]:
        return [self._state(side, one(size)) for one in choose] if size else []

    def _compared(self, found: _Found, choose: Sequence[_Choose]) -> ComparedSets:
        same = {
            side: [same_answer(reply, self._first) for reply in self.asked.ask(self._others(side, found[side], choose))]
            for side in SIDES
        }
        changed, restored = len(same["necessary"]) - sum(same["necessary"]), sum(same["sufficient"])
        return ComparedSets(len(same["necessary"]), changed, len(same["sufficient"]), restored)

    def _side(self, side: Side, size: int | None) -> VerifiedSide:
        replies = self._replies(side)
        steps = tuple(
            self._step(side, tried, reply, tried in (size, *self.plan.sizes)) for tried, reply in replies.items()
        )
        if size is None:
            return VerifiedSide(None, None, None, steps)
        return VerifiedSide(size, self.plan.inputs.count(range(size)), self._said(replies[size]), steps)

    def _step(self, side: Side, size: int, reply: NewReply, measured: bool) -> VerifiedStep:
        """A step that was asked; likelihoods are measured for the ladder, its ends, and the set that was found."""
        state, plan = self._state(side, range(size)), self.plan
        response = target = random = None
        if measured or size in (0, len(plan.inputs)):
            (response,) = self.likelihoods.measure([state])
            (target,) = self.likelihoods.measure([state], self.tokens)
        if side == "necessary" and size in plan.sizes:
            (random,) = self.likelihoods.measure([plan.inputs.hide(plan.random(size))])
        changed = not same_answer(reply, self._first)
        share = plan.inputs.share(range(size))
        return VerifiedStep(size, share, response, target, random, self._said(reply), changed)

    def _said(self, reply: NewReply) -> str | None:
        """The answer; the whole reply if the model gives none even with nothing hidden."""
        return reply.answer if self._first.answer is not None else reply.text

    def _warnings(self) -> list[str]:
        trace = self.attribution.trace
        notes = [trace.placement_note] if trace.probed else []
        if same_answer(NewReply(trace.response, trace.answer_text), self._first):
            return notes
        return [
            *notes,
            f"asked again with nothing hidden, the model answers {self._said(self._first)!r}, not "
            f"{trace.answer_text!r} as in the explained response; changes are judged against its own answer",
        ]


def _curve(curve: Curve) -> FaithfulnessCurve:
    rise, mas = (None if math.isnan(area) else area for area in (curve.rise, curve.mas))
    response, mass = (tuple(map(float, values)) for values in (curve.response, curve.mass))
    return FaithfulnessCurve(rise, mas, response, mass, curve.degenerate)
