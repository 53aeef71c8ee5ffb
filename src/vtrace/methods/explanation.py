"""An explanation by any method, and by the others of a page that switches between methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from ..attribution.options import Options
from ..attribution.result import Attribution
from ..attribution.triangle import LARGEST_SAVED
from ..errors import InputError, VTraceError
from ..lvlm.model import Lvlm
from ..tracing.targets import TargetSpec, find_target
from ..types import Progress, Target, Trace, silent
from .catalogue import REFINED, refine_all
from .ordered import edges_key, ordered_edges
from .registry import find_method, needs_layers, run_method
from .session import TraceSession

PAPER, ORDERED = "vtrace", "vtrace-ordered"  # on every page: one instrumented pass serves both


class ChosenMethod(NamedTuple):
    """The method that explains, its options, and those of the paper's method, which every page has."""

    name: str
    options: Mapping[str, Any]
    of_paper: Mapping[str, Any]


def choose_method(
    name: str, refine: int | None, given: Mapping[str, Mapping[str, Any]], of_paper: Options
) -> ChosenMethod:
    """Check a choice before anything runs. `refine` is a budget, `given` are options by method."""
    (chosen,), options = refine_all([name], given, refine)
    method, plain = find_method(chosen), chosen.removesuffix(REFINED)
    if stray := set(options) - {chosen}:
        raise InputError(f"options were given for {sorted(stray)[0]}, but the method is {chosen}")
    of_vtrace, own = asdict(of_paper), options.get(chosen, {})
    changed = [key for key, value in of_vtrace.items() if value != getattr(Options(), key)]
    if changed and plain != PAPER:
        raise InputError(f"{changed[0]} is an option of vtrace; set those of {chosen} with --set {chosen}.OPTION=VALUE")
    method.check(chosen, own)
    return ChosenMethod(chosen, {**of_vtrace, **own} if plain == PAPER else own, of_vtrace)


class MethodsOfPage(NamedTuple):
    """What the chosen method found, what the other methods of a page found, and what that cost."""

    attribution: Attribution
    others: list[Attribution]
    passes: dict[str, int]  # forward passes by method, as if it had run alone
    missing: dict[str, str]  # methods that a page would have, and why this one has not


def explain(
    lvlm: Lvlm,
    trace: Trace,
    target: TargetSpec,
    chosen: ChosenMethod,
    *,
    page_targets: Sequence[Target] | None = None,
    memory: str | int | None = None,
    progress: Progress = silent,
) -> MethodsOfPage:
    """Explain a trace by the chosen method. With `page_targets`, also by the methods that every page has.

    The page recomputes the paper's method for any target; `page_targets` are those that it has ordered scores for.
    """
    found = find_target(trace, target)
    on_page = {} if page_targets is None else {PAPER: [found], ORDERED: [found, *page_targets]}
    missing: dict[str, str] = {}
    if ORDERED in on_page and chosen.name != ORDERED and (reason := _why_not_ordered(trace, memory)):
        missing[ORDERED] = reason
        del on_page[ORDERED]
    session = TraceSession.open(lvlm, trace, keep_layers=needs_layers([chosen.name]), memory=memory)
    session.progress = progress
    if ORDERED in on_page:  # whichever comes first, its pass serves both
        if chosen.name != ORDERED:  # else the edges that are wanted are those of its own options
            session.folds.along(edges_key(), lambda: ordered_edges(session))
        session.pairwise_along(chosen.of_paper["centring"])
    timed = session.timed(lambda: run_method(chosen.name, session, found, **chosen.options))
    explanation = MethodsOfPage(timed.result, [], {chosen.name: timed.passes}, missing)
    for name, targets in on_page.items():
        options = {chosen.name: chosen.options, PAPER: chosen.of_paper}.get(name, {})
        known = {found.positions} if name == chosen.name else set()
        different = {one.positions: one for one in targets if one.positions not in known}
        run = partial(_run_all, name, session, list(different.values()), options)
        try:
            ran = session.timed(run)
        except VTraceError as error:
            missing[name] = str(error)
            continue
        explanation.others.extend(ran.result)
        explanation.passes.setdefault(name, ran.passes)
    return explanation


def _run_all(
    name: str, session: TraceSession, targets: Sequence[Target], options: Mapping[str, Any]
) -> list[Attribution]:
    return [run_method(name, session, target, **options) for target in targets]


def _why_not_ordered(trace: Trace, memory: str | int | None) -> str | None:
    if memory is not None:
        return f"{ORDERED} keeps edges of all layers, which a limit on memory does not allow"
    if len(trace) > LARGEST_SAVED:
        return f"{ORDERED} is left out of pages of over {LARGEST_SAVED:,} tokens"
    return None
